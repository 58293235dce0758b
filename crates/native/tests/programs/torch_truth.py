"""What torch itself says of its storages, one fact per line, then READY; waits for the end of its stdin.

  visible DATA BYTES    storages of tensors that Python has
  tensor OBJECT DATA    those tensors; an untyped storage has such a line too
  sparse OBJECT DATA    a tensor without a storage of its own, and where its values are
  array OBJECT DATA BYTES  arrays of numpy that own their elements
  alive BYTES           all storages: those before a forward pass, its result, and what a pass like it saves
  made KIND DATA BYTES  one storage each of a kind that the test asks for by name
"""
import gc
import os
import sys
import tempfile
import warnings

import numpy
import torch

warnings.simplefilter("ignore")
torch.set_num_threads(1)


def storage(tensor):
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage().untyped()


def place(tensor):
    of = storage(tensor)
    return of.data_ptr(), of.nbytes()


def tensors():
    things = (thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor))
    return [thing for thing in things if thing.layout == torch.strided and thing.device.type == "cpu"]


def visible():
    return dict(place(tensor) for tensor in tensors())


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.1, batch_first=True)
        self.lstm = torch.nn.LSTM(256, 256, num_layers=2, batch_first=True)

    def forward(self, x):
        return self.lstm(self.layer(x))[0]


def saved_by(net, x):
    """Bytes of each storage that a pass saves, by address; the pass is thrown away."""
    seen = {}

    def pack(tensor):
        data, size = place(tensor)
        seen[data] = size
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = net(x)
    seen.pop(place(y)[0], None)
    return seen


def graph(keep):
    net, x = Net(), torch.randn(16, 128, 256, requires_grad=True)
    known = visible()
    saved = saved_by(net, x)
    gc.collect()
    keep.update(net=net, x=x, y=net(x))
    print("alive", sum({**saved, **known}.values()) + place(keep["y"])[1])


def kinds(keep):
    base = torch.arange(300_000, dtype=torch.float64)
    array = numpy.arange(400_000, dtype=numpy.int32)
    path = os.path.join(tempfile.mkdtemp(), "elements")
    numpy.zeros(2_000_000, dtype=numpy.uint8).tofile(path)
    keep.update(
        base=base,
        views=[base[i:] for i in range(10)],
        parameter=torch.nn.Parameter(torch.zeros(37, 11)),
        borrowed=torch.from_numpy(array),
        lent=torch.zeros(123_456, dtype=torch.int16).numpy(),
        shared=torch.zeros(500_000).share_memory_(),
        file=torch.from_file(path, shared=True, size=2_000_000, dtype=torch.uint8),
        meta=torch.empty(1000, 1000, device="meta"),
        sparse=torch.eye(50).to_sparse(),
        rows=torch.eye(60).to_sparse_csr(),
        quantized=torch.quantize_per_tensor(torch.zeros(7000), 0.1, 0, torch.qint8),
        half=torch.zeros(9, 8, 7, 6, 5, 4, dtype=torch.bfloat16),
        empty=torch.empty(0),
        array=array,
        untyped=storage(torch.ones(111_111)),
        bytes=torch.frombuffer(b"0123456789abcdef" * 100, dtype=torch.int64),
    )
    for name in ("base", "parameter", "borrowed", "shared", "file", "quantized", "half"):
        print("made", name, *place(keep[name]))
    print("made lent", keep["lent"].ctypes.data, keep["lent"].nbytes)
    print("made untyped", keep["untyped"].data_ptr(), keep["untyped"].nbytes())
    print("sparse", id(keep["sparse"]), place(keep["sparse"]._values())[0])
    print("sparse", id(keep["rows"]), place(keep["rows"].values())[0])
    print("base", id(keep["lent"].base))
    print("untyped", id(keep["untyped"]), keep["untyped"].data_ptr())
    print("array", id(array), array.ctypes.data, array.nbytes)
    os.unlink(path)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.full((250_000,), float(index))


def loader(keep):
    batches = torch.utils.data.DataLoader(Numbers(), batch_size=2, num_workers=1)
    keep.update(batches=list(batches))
    for batch in keep["batches"]:
        print("made shared", *place(batch))


def train(keep):
    net = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.ReLU(), torch.nn.Linear(200, 10))
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        net(torch.randn(64, 300)).sum().backward()
        optimizer.step()
    keep.update(net=net, optimizer=optimizer, state=net.state_dict())
    for parameter in net.parameters():
        print("made weight", *place(parameter))
        print("made gradient", *place(parameter.grad))
        print("pair", id(parameter), id(parameter.grad))


def main():
    keep = {}
    print("version", torch.__version__)
    for name in sys.argv[1:]:
        globals()[name](keep)
    gc.collect()
    for data, size in visible().items():
        print("visible", data, size)
    for tensor in tensors():
        print("tensor", id(tensor), place(tensor)[0])
    print("READY", flush=True)
    sys.stdin.read()


main()
