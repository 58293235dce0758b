"""torch_snapshot.py FILE PROTOCOL: a snapshot of the shape that torch's _dump_snapshot writes, with known sums."""
import pickle
import sys


def frame(name, filename, line):
    return {"name": name, "filename": filename, "line": line}


step = frame("step", "/site-packages/torch/optim/adamw.py", 200)
forward = frame("forward", "/site-packages/torch/nn/modules/linear.py", 134)
native = frame("at::native::empty", "??", 0)
main = frame("<module>", "/work/train.py", 7)
pinned = frame("pin_memory", "/site-packages/torch/utils/data/_utils/pin_memory.py", 9)
state, activation = [native, step, main], [native, forward, main]
base = 0x7F0000000000
MB = 1 << 20


def event(action, addr, size, frames, time):
    return {"action": action, "addr": addr, "size": size, "stream": 0, "frames": frames, "time_us": 1_700_000_000_000_000 + time}


snapshot = {
    "segments": [
        {
            "device": 0, "address": base, "total_size": 20 * MB, "allocated_size": 6 * MB, "active_size": 6 * MB, "stream": 0,
            "segment_type": "large",
            "blocks": [
                {"address": base, "size": 4 * MB, "requested_size": 4 * MB - 100, "state": "active_allocated", "frames": state},
                {"address": base + 4 * MB, "size": 6 * MB, "requested_size": 0, "state": "inactive", "frames": []},
                {"address": base + 10 * MB, "size": 2 * MB, "requested_size": 2 * MB, "state": "active_allocated", "frames": []},
                {"address": base + 12 * MB, "size": 8 * MB, "requested_size": 0, "state": "inactive", "frames": []},
            ],
        },
    ],
    "device_traces": [[
        event("alloc", base + 12 * MB, 8 * MB, activation, 1),
        event("alloc", base, 4 * MB - 100, state, 2),
        event("alloc", base + 4 * MB, 6 * MB, activation, 3),
        event("free_requested", base + 12 * MB, 8 * MB, [], 4),
        event("free_completed", base + 12 * MB, 8 * MB, [], 5),
        event("free_requested", base + 4 * MB, 6 * MB, [], 6),
        event("free_completed", base + 4 * MB, 6 * MB, [], 7),
        event("snapshot", 0, 0, [], 8),
    ]],
    "host_segments": [
        {"device": 0, "address": 4096, "total_size": MB, "blocks": [
            {"address": 4096, "size": MB, "requested_size": MB, "state": "active_allocated", "frames": [pinned]}]},
    ],
    "allocator_settings": {"expandable_segments": False, "garbage_collection_threshold": 0.5},
    "external_annotations": [],
}
with open(sys.argv[1], "wb") as out:
    pickle.dump(snapshot, out, protocol=int(sys.argv[2]))
