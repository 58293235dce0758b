"""Some objects, then what malloc says of itself on each line of input."""
import ctypes
import sys

kept = [bytes(1000 + number % 3000) for number in range(4000)]
del kept[::3]


class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]


ask = ctypes.CDLL(None).mallinfo2
ask.restype = Info
for line in sys.stdin:
    info = ask()
    print("in_use", info.uordblks, flush=True)
    print("free", info.fordblks, flush=True)
