"""tensorflow_train.py compiled|eager|pooled: a small training with Keras; prints its own truth about its memory."""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if sys.argv[1] != "pooled":  # with oneDNN tensors lie in a pool of TensorFlow's own
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
dense = keras.layers.Dense
model = keras.Sequential([keras.Input((512,)), dense(1024, activation="relu"), dense(1024, activation="relu"), dense(10)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(), loss, run_eagerly=sys.argv[1] == "eager")
x, y = tf.random.normal((64, 512)), tf.zeros(64, tf.int32)
marks = os.environ.get("NILO_MARKS")
for number in range(8):
    model.train_on_batch(x, y)
    if marks:
        with open(marks, "a") as out:
            out.write(f"step {number + 1}\n")
bytes_of = lambda variables: sum(variable.value.numpy().nbytes for variable in variables)
print("parameters", bytes_of(model.trainable_variables))
print("state", bytes_of(it for it in model.optimizer.variables if it.path.endswith(("momentum", "velocity"))))
