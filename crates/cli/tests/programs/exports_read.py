"""exports_read.py WHAT FILE...: reads an exported file with the tool's own reader and prints what it found as JSON."""
import json
import sys


def tables(csv, lines, folder, query):
    import duckdb
    import pandas
    import pyarrow.dataset

    frame = pandas.read_csv(csv)
    records = pandas.read_json(lines, lines=True)
    tree = pyarrow.dataset.dataset(folder, format="parquet", partitioning="hive")
    files = [name for name in tree.files if name.endswith("/tree.parquet")]
    high = pyarrow.dataset.dataset(files, format="parquet").to_table(columns=["high_bytes"])["high_bytes"]
    with open(query) as text:
        rows = duckdb.sql(text.read().replace("tables/", folder + "/")).fetchall()
    with open(lines) as text:
        ticks = [tick for tick in map(json.loads, text) if tick["kind"] == "tick" and tick["system"]]
    return {
        "csv_rows": len(frame),
        "system_ticks": len(ticks),
        "system_high_bytes": max(tick["tree"]["high_bytes"] for tick in ticks if tick["tree"]),
        "csv_high_kb": float(frame["tree_high_kb"].max()),
        "json_ticks": int(((records["kind"] == "tick") & (records["phase"] == "during")).sum()),
        "json_steps": int(records["step"].nunique()),
        "parquet_high_bytes": max(value for value in high.to_pylist() if value is not None),
        "parquet_ticks": len(high),
        "duckdb": [list(row) for row in rows],
    }


def tensorboard(file):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(file, size_guidance={"scalars": 0})
    events.Reload()
    tags = events.Tags()["scalars"]
    points = {tag: [[it.step, it.value, it.wall_time] for it in events.Scalars(tag)] for tag in tags}
    return {"version": events.file_version, "points": points}


def unknown(message, where=""):
    """Fields that the schema does not know, anywhere in a message."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    found = [f"{where}.{field.field_number}" for field in UnknownFieldSet(message)]
    for field, value in message.ListFields():
        if field.message_type:
            for part in value if field.is_repeated else [value]:
                found += unknown(part, f"{where}.{field.name}")
    return found


def perfetto(file):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

    trace = schema.Trace()
    with open(file, "rb") as stream:
        trace.ParseFromString(stream.read())
    wrong, cleared, described, open_slices, dumps = [], set(), {}, {}, {}
    found = {"rss_kb": {}, "pss_kb": {}, "counters": {}, "slices": {}, "instants": [], "samples": 0, "command": {}}
    names = ["function_names", "mapping_paths", "source_paths", "mappings", "frames", "callstacks"]
    by_sequence, indexes, continued, clocks = {}, {}, {}, {}
    for packet in trace.packet:
        wrong += unknown(packet)
        sequence = packet.trusted_packet_sequence_id
        if sequence not in cleared:
            if not packet.sequence_flags & 1:
                wrong.append(f"sequence {sequence} does not begin with a cleared state")
            cleared.add(sequence)
        if packet.HasField("timestamp") and packet.timestamp_clock_id != 3:
            wrong.append("a time of another clock")
        for clock in packet.clock_snapshot.clocks:
            clocks[clock.clock_id] = clock.timestamp
        interned = by_sequence.setdefault(sequence, {name: {} for name in names})
        for name, known in interned.items():
            for entry in getattr(packet.interned_data, name):
                if entry.iid == 0 or entry.iid in known:
                    wrong.append(f"{name} {entry.iid} again, or 0")
                known[entry.iid] = entry
        for process in packet.process_tree.processes:
            found["command"][process.pid] = list(process.cmdline)
        for process in packet.process_stats.processes:
            for field, name in [("vm_rss_kb", "rss_kb"), ("smr_pss_kb", "pss_kb")]:
                if process.HasField(field):
                    highest = found[name].get(process.pid, 0)
                    found[name][process.pid] = max(highest, getattr(process, field))
            found["samples"] += process.HasField("vm_rss_kb")
        if packet.HasField("track_descriptor"):
            described[packet.track_descriptor.uuid] = packet.track_descriptor
        if packet.HasField("track_event"):
            event(packet, described, open_slices, found, wrong)
        if packet.HasField("profile_packet"):
            profile = packet.profile_packet
            index = indexes.get(sequence, 0)
            if not packet.sequence_flags & 2 or profile.index != index:
                wrong.append(f"profile packet {profile.index} is not number {index}, or needs no state")
            indexes[sequence], continued[sequence] = index + 1, profile.continued
            for dump in profile.process_dumps:
                # Its times are those of the coarse clock; numbers of blocks are believed with both intervals.
                if 4 not in clocks or not dump.orig_sampling_interval_bytes:
                    wrong.append("a profile whose clock is unknown, or without its sampling interval")
                sums = {"self_max": 0, "live": 0, "allocated": 0, "count": 0, "stacks": 0, "by_function": {}}
                add(dump, dumps.setdefault(dump.heap_name, sums), interned, wrong)
    if any(continued.values()):
        wrong.append("a profile is not ended")
    if any(open_slices.values()):
        wrong.append(f"slices that never end: {open_slices}")
    return {"wrong": wrong, "packets": len(trace.packet), "clocks": clocks, "dumps": dumps, **found}


def event(packet, described, open_slices, found, wrong):
    it = packet.track_event
    track = described.get(it.track_uuid)
    if track is None:
        wrong.append(f"track {it.track_uuid} is not described")
    elif it.type == it.TYPE_COUNTER:
        if track.counter.unit != track.counter.UNIT_SIZE_BYTES:
            wrong.append("a counter without its unit")
        found["counters"].setdefault(track.name, []).append(it.counter_value)
    elif it.type == it.TYPE_SLICE_BEGIN:
        if open_slices.get(track.name):
            wrong.append("slices overlap")
        open_slices[track.name] = (it.name, packet.timestamp)
    elif it.type == it.TYPE_SLICE_END:
        name, began = open_slices[track.name]
        open_slices[track.name] = None
        if packet.timestamp < began:
            wrong.append("a slice ends before it begins")
        found["slices"].setdefault(track.name, []).append([name, (packet.timestamp - began) / 1e9])
    elif it.type == it.TYPE_INSTANT:
        found["instants"].append(it.name)


def add(dump, sums, interned, wrong):
    for sample in dump.samples:
        stack = interned["callstacks"].get(sample.callstack_id)
        frames = [interned["frames"].get(frame) for frame in stack.frame_ids] if stack else []
        if not frames or None in frames:
            wrong.append("a stack that was not interned")
            continue
        for frame in frames:
            mapping = interned["mappings"].get(frame.mapping_id)
            paths = [interned["mapping_paths"].get(path) for path in mapping.path_string_ids] if mapping else [None]
            if None in paths or frame.function_name_id not in interned["function_names"]:
                wrong.append("a frame without its mapping or its name")
            if frame.HasField("source_path_iid") and frame.source_path_iid not in interned["source_paths"]:
                wrong.append("a frame without its source")
        innermost = interned["function_names"][frames[-1].function_name_id].str.decode()
        amounts = sums["by_function"].setdefault(innermost, [0, 0, 0])
        live = sample.self_allocated - sample.self_freed
        for place, value in enumerate([sample.self_max, live, sample.self_allocated]):
            amounts[place] += value
        sums["self_max"] += sample.self_max
        sums["live"] += live
        sums["allocated"] += sample.self_allocated
        sums["count"] += sample.alloc_count
        sums["stacks"] += 1


def firefox(file):
    """The tables by the rules of the processed format: columns as long as they say, every index in its table."""
    with open(file) as stream:
        document = json.load(stream)
    wrong = []

    def columns(table, name):
        for column, values in table.items():
            if isinstance(values, list) and len(values) != table["length"]:
                wrong.append(f"{name}.{column} has {len(values)} of {table['length']}")

    def indexes(values, table, name):
        size = len(table) if isinstance(table, list) else table["length"]
        wrong.extend(f"{name}: {value}" for value in values if value is not None and not 0 <= value < size)

    meta = document["meta"]
    for field in ["interval", "startTime", "processType", "product", "preprocessedProfileVersion", "categories", "markerSchema"]:
        if field not in meta:
            wrong.append(f"meta.{field} is missing")
    found = {"version": meta["preprocessedProfileVersion"], "product": meta["product"], "threads": [], "counters": []}
    for thread in document["threads"]:
        strings = thread["stringArray"]
        for name in ["samples", "stackTable", "frameTable", "funcTable", "markers", "resourceTable", "nativeSymbols"]:
            columns(thread[name], name)
        stacks, frames, functions = thread["stackTable"], thread["frameTable"], thread["funcTable"]
        indexes(stacks["frame"], frames, "stack.frame")
        wrong.extend(f"stack {at} after its caller" for at, prefix in enumerate(stacks["prefix"]) if prefix is not None and prefix >= at)
        indexes(frames["func"], functions, "frame.func")
        indexes(frames["category"], meta["categories"], "frame.category")
        indexes(functions["name"], strings, "func.name")
        indexes(thread["markers"]["name"], strings, "marker.name")
        indexes(thread["markers"]["category"], meta["categories"], "marker.category")
        table = thread.get("nativeAllocations") or {"length": 0, "stack": [], "weight": [], "time": [], "memoryAddress": [], "weightType": "bytes"}
        columns(table, "nativeAllocations")
        indexes(table["stack"], stacks, "nativeAllocations.stack")
        if table["weightType"] != "bytes":
            wrong.append("weights are not bytes")
        retained = {}
        for address, weight in zip(table["memoryAddress"], table["weight"]):
            retained[address] = retained.get(address, 0) + weight
        wrong.extend(f"more given back than handed out at {at}" for at, left in retained.items() if left < 0)
        by_function = {}
        for stack, weight in zip(table["stack"], table["weight"]):
            name = strings[functions["name"][frames["func"][stacks["frame"][stack]]]].split(" ")[0]
            sums = by_function.setdefault(name, [0, 0])
            sums[0] += weight
            sums[1] += max(weight, 0)
        times = sorted(set(table["time"]))
        until = times[1] if len(times) > 2 else (times[-1] if times else 0)
        markers = [strings[name] for name in thread["markers"]["name"]]
        found["threads"].append({
            "pid": thread["pid"],
            "live": sum(table["weight"]),
            "allocated": sum(weight for weight in table["weight"] if weight > 0),
            "at_peak": sum(weight for weight, at in zip(table["weight"], table["time"]) if at <= until),
            "stacks": len(set(table["stack"])),
            "by_function": by_function,
            "markers": {name: markers.count(name) for name in set(markers)},
        })
    for counter in document["counters"]:
        indexes([counter["mainThreadIndex"]], document["threads"], "counter.mainThreadIndex")
        columns(counter["samples"], "counter.samples")
        value, highest = 0, 0
        for change in counter["samples"]["count"]:
            value += change
            highest = max(highest, value)
        found["counters"].append({"pid": counter["pid"], "name": counter["name"], "category": counter["category"], "highest": highest})
    return {"wrong": wrong, **found}


READERS = {"tables": tables, "tensorboard": tensorboard, "perfetto": perfetto, "firefox": firefox}
json.dump(READERS[sys.argv[1]](*sys.argv[2:]), sys.stdout)
