"""The test folders of ONNX operators: finds them, reads model and data, compares, and prints one line for a suite."""

import dataclasses
import fnmatch
import pathlib
import sys

import numpy
import onnx

import headway


class Skip(Exception):
    """A case that Headway does not take on; the message says why."""


@dataclasses.dataclass
class Suite:
    """One operator: which folders hold its cases, and the function that computes a Call through Headway."""

    name: str  # as the printed line says it
    operator: str
    folders: str  # a pattern, "test_attention_*"
    compute: object  # Call -> list of arrays, one for each output of the node, None where it is not asked for


@dataclasses.dataclass
class Call:
    """A node with its data. Inputs that were left out are None, and so is whatever lies past the last one given."""

    attributes: dict
    inputs: list
    wanted: list  # for each output of the node, whether it has a name

    def input(self, index):
        return self.inputs[index] if index < len(self.inputs) else None

    def wants(self, index):
        return index < len(self.wanted) and self.wanted[index]

    def check_known(self, attributes, input_count, output_count):
        """Refuses what the suite does not know, which it would otherwise leave out in silence."""
        unknown = sorted(set(self.attributes) - set(attributes))
        if unknown:
            raise Skip(f"the attributes {unknown} are not known")
        if len(self.inputs) > input_count or len(self.wanted) > output_count:
            raise Skip(f"{len(self.inputs)} inputs and {len(self.wanted)} outputs, where {input_count} and "
                       f"{output_count} are known")


def default_directory():
    """The cases that come with the onnx package."""
    return pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"


def find_folders(directories, pattern):
    """The folders with a model whose names match the pattern, under the directories or the directories themselves."""
    models = {model.resolve() for directory in directories for model in pathlib.Path(directory).rglob("model.onnx")}
    return sorted(model.parent for model in models if fnmatch.fnmatch(model.parent.name, pattern))


def read_tensors(data_set, kind, names):
    """The arrays of input_0.pb, input_1.pb, ... (or output_) by the names that the graph gives them."""
    return {name: onnx.numpy_helper.to_array(onnx.load_tensor(str(data_set / f"{kind}_{i}.pb")))
            for i, name in enumerate(names)}


def is_operator(node, operator):
    return node.op_type == operator and node.domain in ("", "ai.onnx")


def tolerances(arrays, attributes):
    """(relative, absolute): 1e-4 and 1e-5 for float32 and wider, where ONNX's own runner allows a relative 1e-3; for
    narrower types two roundings, and half of one near 0, since bfloat16 kernels may round the weights too."""
    types = [array.dtype for array in arrays if array is not None]
    if "softmax_precision" in attributes:
        types.append(onnx.helper.tensor_dtype_to_np_dtype(attributes["softmax_precision"]))
    epsilons = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
    epsilon = max((epsilons.get(dtype.name, 0.0) for dtype in map(numpy.dtype, types)), default=0.0)
    return max(1e-4, 2 * epsilon), max(1e-5, epsilon / 2)


def compare(name, result, expected, relative, absolute):
    """Raises an AssertionError that names the output."""
    assert result.shape == expected.shape, f"{name} has shape {result.shape}, expected {expected.shape}"
    assert result.dtype == expected.dtype, f"{name} has dtype {result.dtype}, expected {expected.dtype}"
    if not numpy.issubdtype(expected.dtype, numpy.floating):  # bfloat16 is none to NumPy
        result, expected = result.astype(numpy.float64), expected.astype(numpy.float64)
    numpy.testing.assert_allclose(result, expected, relative, absolute, equal_nan=False, err_msg=name)


def run_data_set(suite, graph, node, data_set):
    """Computes one folder of data and compares every output of the graph."""
    values = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    given = len(list(data_set.glob("input_*.pb")))
    values.update(read_tensors(data_set, "input", [entry.name for entry in graph.input][:given]))
    expected = read_tensors(data_set, "output", [entry.name for entry in graph.output])
    call = Call(attributes={a.name: onnx.helper.get_attribute_value(a) for a in node.attribute},
                inputs=[values[name] if name else None for name in node.input],
                wanted=[bool(name) for name in node.output])
    calls_before = headway.call_count()
    results = dict(zip(node.output, suite.compute(call)))
    assert headway.call_count() > calls_before, "Headway was not called"
    relative, absolute = tolerances(call.inputs, call.attributes)
    for name, array in expected.items():
        compare(name, results[name], array, relative, absolute)


def run_folder(suite, folder):
    """True when the folder is a case of the operator and passes; False when it is not one, as an expanded copy."""
    graph = onnx.load(str(folder / "model.onnx")).graph
    nodes = [node for node in graph.node if is_operator(node, suite.operator)]
    if not nodes:
        return False
    if len(graph.node) > 1:
        raise Skip(f"the graph has {len(graph.node)} nodes, expected one {suite.operator}")
    data_sets = sorted(folder.glob("test_data_set_*"))
    assert data_sets, "there is no test_data_set_*"
    for data_set in data_sets:
        run_data_set(suite, graph, nodes[0], data_set)
    return True


def run_suite(suite, directories):
    """Runs all cases and prints each that did not pass with its reason, then the line. True when some passed and none
    failed."""
    passed, failed, skipped = 0, 0, 0
    for folder in find_folders(directories, suite.folders):
        try:
            passed += run_folder(suite, folder)
        except Skip as reason:
            skipped += 1
            print(f"skipped {folder.name}: {reason}")
        except Exception as error:
            failed += 1
            print(f"failed {folder.name}: {type(error).__name__}: {error}")
    print(f"onnx {suite.name}: {passed} passed, {failed} failed, {skipped} skipped", flush=True)
    if passed + failed + skipped == 0:
        print(f"no case of {suite.operator} under {', '.join(map(str, directories))}", file=sys.stderr)
    return failed == 0 and passed > 0


def main(suites):
    """Runs the suites over the directories of the command line, or those of the onnx package. Gives an exit status."""
    directories = [pathlib.Path(argument) for argument in sys.argv[1:]] or [default_directory()]
    missing = [str(directory) for directory in directories if not directory.is_dir()]
    if missing:
        print(f"not a directory: {', '.join(missing)}", file=sys.stderr)
        return 2
    results = [run_suite(suite, directories) for suite in suites]
    return 0 if all(results) else 1
