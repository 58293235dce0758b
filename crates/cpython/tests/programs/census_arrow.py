"""Tables of pyarrow and pandas; says what their buffers should add up to."""

import json
import os
import sys

import numpy
import pandas
import pyarrow

numbers = numpy.arange(200000)  # numpy owns these
shared = pyarrow.array(numbers)
own = pyarrow.array(range(300000))
texts = pyarrow.array(["text %d" % i for i in range(50000)])
words = texts.dictionary_encode()
nested = pyarrow.array([[i, i + 1] for i in range(20000)])
text = b"y" * 100000  # a bytes object owns these
wrapped = pyarrow.py_buffer(text)
chunked = pyarrow.chunked_array([own, own.slice(10, 20)])
table = pyarrow.table({"n": chunked.slice(0, 300000), "t": pyarrow.array(["x"] * 300000)})
batch = pyarrow.record_batch([pyarrow.array(range(1000, 40000))], names=["own"])
frame = pandas.DataFrame({"a": numpy.ones(100000), "s": ["pandas %d" % i for i in range(40000)] + ["z"] * 60000})

print(json.dumps({"pid": os.getpid(), "numbers": numbers.nbytes, "arrow": pyarrow.total_allocated_bytes()}), flush=True)
sys.stdin.read()
