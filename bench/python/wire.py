"""The Python peer of the benchmark of the wire: the standard library's json and orjson, with numpy.

    load WORKLOAD                       reads the files in the folder of that name
    answer STAGE LIBRARY                runs once, and leaves what came out in the file `answer`
    turn STAGE LIBRARY MILLISECONDS     the milliseconds of each run until so much time has passed, after one that does not count

Stages are `float32`, `bfloat16` and `ids`, arrays to text, and `logprobs`, text to an array; libraries are `json` and `orjson`.
"""
import array
import json
import time

import numpy as np

from protocol import serve


class Json:
    @staticmethod
    def write(rows):
        return json.dumps([{"data": row.tolist()} for row in rows], separators=(",", ":"), allow_nan=False).encode()

    loads = staticmethod(json.loads)


class Orjson:
    def __init__(self):
        import orjson

        self.loads = orjson.loads
        self.dumps = lambda value: orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)

    def write(self, rows):
        return self.dumps([{"data": row} for row in rows])


LIBRARIES = {"json": Json, "orjson": Orjson}


class Peer:
    def load(self, name):
        samples = int(name.split("x")[0])
        rows = {stage: np.fromfile(f"{name}/{stage}.f32", np.float32).reshape(samples, -1) for stage in ("float32", "bfloat16")}
        tokens = np.fromfile(f"{name}/tokens.i32", np.int32).reshape(samples, -1)
        self.rows = {**rows, "ids": tokens[:, 1:]}
        with open(f"{name}/output.json", "rb") as file:
            self.text = file.read()
        return {}

    def run(self, stage, library):
        if stage != "logprobs":
            return library.write(self.rows[stage])
        values = array.array("f")
        for sample in library.loads(self.text)["loss_fn_outputs"]:
            values.extend(array.array("f", sample["tensors"]["logprobs"]["data"]))
        return np.frombuffer(values, np.float32)

    def answer(self, stage, library):
        with open("answer", "wb") as file:
            file.write(self.run(stage, LIBRARIES[library]()))
        return {}

    def turn(self, stage, library, milliseconds):
        library = LIBRARIES[library]()
        self.run(stage, library)
        times = []
        end = time.perf_counter() + float(milliseconds) / 1e3
        while not times or time.perf_counter() < end:
            start = time.perf_counter()
            self.run(stage, library)
            times.append(1e3 * (time.perf_counter() - start))
        return {"times": times}


peer = Peer()
commands = {"load": peer.load, "answer": peer.answer, "turn": peer.turn}
serve([f"numpy {np.__version__}"], lambda command, *words: commands[command](*words))
