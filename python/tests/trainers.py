"""trainers.py lightning|huggingface|keras|keepers: the real ones, on a training of a few numbers. Under `nilo run`.

What they kept is read back by their own readers, and compared with what psutil or the kernel says of this process.
"""
import os
import struct
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.update(HF_HUB_OFFLINE="1", MLFLOW_DISABLE_TELEMETRY="true", MLFLOW_ALLOW_FILE_STORE="true")
MIB = 2.0**20


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


def plausible(rss, peak):
    now = resident()
    assert len(rss) == len(peak) > 0, (rss, peak)
    assert all(now / 2 < one <= other for one, other in zip(rss, peak)), (now, rss, peak)


def scalars(folder):
    """What TensorBoard itself reads: (step, value) by name."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(folder)
    events.Reload()
    return {name: [(one.step, one.value) for one in events.Scalars(name)] for name in events.Tags()["scalars"]}


def numbers(count):
    import torch

    class Numbers(torch.utils.data.Dataset):
        def __len__(self):
            return count

        def __getitem__(self, index):
            return {"x": torch.ones(4), "labels": torch.ones(1)}

    return Numbers()


def lightning():
    import torch
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.loggers import TensorBoardLogger

    import nilometer.lightning

    class Model(LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, index):
            return (self.layer(batch["x"]) - batch["labels"]).pow(2).mean()

        def validation_step(self, batch, index):
            self.log("loss", self.training_step(batch, index))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def loader(count):
        return torch.utils.data.DataLoader(numbers(count), batch_size=2)

    trainer = Trainer(
        accelerator="cpu",
        max_epochs=2,
        accumulate_grad_batches=2,
        log_every_n_steps=1,
        logger=TensorBoardLogger(".", name="lightning", version="0"),
        callbacks=[nilometer.lightning.Callback()],
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(Model(), loader(16), loader(4))
    assert trainer.global_step == 8
    found = scalars("lightning/0")
    assert [step for step, _ in found["nilo/rss_mib"]] == list(range(8)), found
    plausible([value for _, value in found["nilo/rss_mib"]], [value for _, value in found["nilo/peak_mib"]])
    return trainer.global_step


def huggingface():
    import torch
    from transformers import Trainer, TrainingArguments

    import nilometer.huggingface

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, x, labels):
            return {"loss": (self.layer(x) - labels).pow(2).mean()}

    words = dict(output_dir="huggingface", max_steps=7, logging_steps=1, use_cpu=True, disable_tqdm=True)
    os.environ["TENSORBOARD_LOGGING_DIR"] = "huggingface/logs"
    arguments = TrainingArguments(report_to=["tensorboard"], save_strategy="no", per_device_train_batch_size=2, **words)
    trainer = Trainer(Model(), arguments, train_dataset=numbers(64), callbacks=[nilometer.huggingface.Callback()])
    trainer.train()
    kept = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(kept) == 7 and all(entry["nilo/peak_mib"] >= entry["nilo/rss_mib"] > 1 for entry in kept), kept
    found = scalars("huggingface/logs")
    name = next(name for name in found if name.endswith("nilo/rss_mib"))
    assert [step for step, _ in found[name]][:7] == list(range(1, 8)), found
    highest = found[name.replace("rss", "peak")]
    plausible([value for _, value in found[name]], [value for _, value in highest])
    return trainer.state.global_step


def keras():
    import keras
    import numpy

    import nilometer.keras

    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    told = model.fit(
        numpy.ones((40, 4)), numpy.ones((40, 1)), batch_size=10, epochs=3, verbose=2, callbacks=[nilometer.keras.Callback()]
    )
    assert len(told.history["loss"]) == 3
    plausible(told.history["nilo/rss_mib"], told.history["nilo/peak_mib"])
    return 4 * 3


def keepers():
    import mlflow
    import psutil
    import wandb
    from torch.utils.tensorboard import SummaryWriter

    import nilometer
    from nilometer import _forward

    _forward.EVERY_S = 0
    mlflow.set_tracking_uri("file://" + os.path.abspath("mlruns"))
    writer = SummaryWriter("board")
    row = wandb.init(mode="offline", dir=".", project="nilo", settings=wandb.Settings(console="off"))
    nilometer.forward_to(writer)
    with mlflow.start_run() as run:
        for step in range(5):
            nilometer.step(step)
            row.log({"loss": 1.0 / (step + 1)})
    nilometer.step(5)  # no run of MLflow is active any more
    row.finish()
    writer.close()
    now = psutil.Process().memory_info().rss / MIB

    history = mlflow.tracking.MlflowClient().get_metric_history(run.info.run_id, "nilo/rss_mib")
    assert [metric.step for metric in history] == [0, 1, 2, 3, 4], history
    assert all(now / 2 < metric.value < now * 1.5 for metric in history), (now, history)
    found = scalars("board")
    assert [step for step, _ in found["nilo/peak_mib"]] == [0, 1, 2, 3, 4, 5], found
    plausible([value for _, value in found["nilo/rss_mib"]], [value for _, value in found["nilo/peak_mib"]])
    rows = offline_rows(row.settings.sync_file)
    assert [one["loss"] for one in rows if "loss" in one] == [1.0 / (step + 1) for step in range(5)], rows
    assert all(now / 2 < one["nilo/rss_mib"] <= one["nilo/peak_mib"] for one in rows if "loss" in one), (now, rows)
    return 6


def offline_rows(path):
    """The rows of a W&B run that was kept on disk."""
    import json

    from wandb.proto import wandb_internal_pb2

    rows = []
    for piece in pieces(open(path, "rb").read()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(piece)
        if record.WhichOneof("record_type") == "history":
            rows.append({"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item})
    return rows


def pieces(log):
    """LevelDB's log: blocks of 32 KiB, in them pieces of (checksum, length, kind); 1 is a whole record, 2, 3, 4 are its parts."""
    assert log[:4] == b":W&B", log[:7]
    place, parts = 7, b""
    while place + 7 <= len(log):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        length, kind = struct.unpack("<HB", log[place + 4 : place + 7])
        parts += log[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            yield parts
            parts = b""


print("steps", globals()[sys.argv[1]]())
