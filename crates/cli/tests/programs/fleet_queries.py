"""fleet_queries.py PAGE DIRECTORY run|node|rank: runs the queries of the page on merged tables; prints the first row of each."""
import json
import re
import sys
import time

page, directory, layout = open(sys.argv[1]).read(), sys.argv[2], sys.argv[3]
partitions = {
    "run": '[("run", pa.string())]',
    "node": '[("run", pa.string()), ("node", pa.string())]',
    "rank": '[("run", pa.string()), ("node", pa.string()), ("rank", pa.int64())]',
}[layout]
blocks = {engine: code for _, engine, code in re.findall(r"```(sql|python) (\w+)\n(.*?)```", page, re.S)}


def put(code):
    code = code.replace("FILES", directory + "/**/samples.parquet").replace("DIRECTORY", directory)
    return code.replace("PARTITIONS", partitions)


def duckdb(code):
    import duckdb

    began = time.monotonic()
    rank, rate = duckdb.sql(code).fetchall()[0]
    return rank, rate, began


def python(code):
    import datafusion, polars  # noqa: E401,F401 the import is not the query

    scope = {}
    began = time.monotonic()
    exec(code, scope)
    row = scope["rows"][0]
    return row["rank"], row["bytes_per_s"], began


answers = {}
for engine, ask in {"duckdb": duckdb, "datafusion": python, "polars": python}.items():
    rank, rate, began = ask(put(blocks[engine]))
    answers[engine] = {"rank": int(rank), "bytes_per_s": rate, "seconds": round(time.monotonic() - began, 3)}
print(json.dumps(answers))
