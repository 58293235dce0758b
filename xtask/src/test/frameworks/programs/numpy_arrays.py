"""Arrays of numpy, for those who keep theirs in them."""
import numpy as np

import stage


class NumpyLoop(stage.Loop):
    def buffers(self):
        """Arrays that own what they show; views add nothing."""
        owners = [array for array in stage.reachable(self.__dict__, np.ndarray) if array.flags.owndata]
        return [(array.ctypes.data, array.nbytes) for array in owners]

    array = staticmethod(lambda count: np.ones(count, np.float32))
    nbytes = staticmethod(lambda array: array.nbytes)
    touch = staticmethod(lambda array: array.sum())
