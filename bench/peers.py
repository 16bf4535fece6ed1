"""Attention by JAX and by ONNX Runtime on the CPU, as further sides of a benchmark where they are installed."""

import dataclasses
import functools
import os
import pathlib
import tempfile
from typing import Any, Callable

import torch


@dataclasses.dataclass
class Side:
    """Calling it computes; tensors() computes too, and returns the results in PyTorch's layout to compare."""

    run: Callable[[], Any]
    read: Callable[[Any], torch.Tensor]

    def __call__(self):
        return self.run()

    def tensors(self):
        return (self.read(self.run()),)


class Jax:
    """jax.nn.dot_product_attention, compiled by jax.jit."""

    name = "JAX"
    call = "`jax.nn.dot_product_attention`, `jax.jit`"
    threads_note = (
        "XLA's pool has as many threads as the row; with more than one, the calling thread computes beside the pool, "
        "which cannot be set"
    )

    def __init__(self):
        import jax
        import jax.extend.backend

        self.jax = jax
        self.version = jax.__version__
        self.threads = None
        jax.config.update("jax_platforms", "cpu")
        # A call then starts on the thread that makes it, as the other sides' do.
        jax.config.update("jax_cpu_enable_async_dispatch", False)

    def set_threads(self, threads):
        """A new client: XLA asks for the size of its pool only when it makes one."""
        if threads == self.threads:
            return
        before = os.environ.get("PJRT_NPROC")
        os.environ["PJRT_NPROC"] = str(threads)
        try:
            self.jax.extend.backend.clear_backends()
            self.jax.devices()
        finally:
            del os.environ["PJRT_NPROC"]
            if before is not None:
                os.environ["PJRT_NPROC"] = before
        self.threads = threads

    def attention(self, inputs, causal, threads):
        """The side for query, key and value [batch, heads, length, head_dim]; JAX's are [batch, length, heads, ...]."""
        self.set_threads(threads)
        arrays = [self.jax.numpy.asarray(x.transpose(1, 2).contiguous().numpy()) for x in inputs]
        compiled = self.jax.jit(functools.partial(self.jax.nn.dot_product_attention, is_causal=causal))
        return Side(
            run=lambda: compiled(*arrays).block_until_ready(),
            read=lambda result: torch.from_dlpack(result).transpose(1, 2),
        )


class OnnxRuntime:
    """A model of one node: the operator set's Attention, or where that has no CPU kernel the runtime's own one."""

    name = "ONNX Runtime"
    threads_note = "intra_op_num_threads is the row's"

    def __init__(self):
        import onnx
        import onnxruntime

        self.onnx, self.runtime = onnx, onnxruntime
        self.version = onnxruntime.__version__
        self.has_standard_kernel = self.keeps_standard_node()
        self.call = "opset 23, `Attention`" if self.has_standard_kernel else "com.microsoft, `MultiHeadAttention`"

    def model(self, shape, causal, standard):
        """Standard: [batch, heads, length, head_dim] in and out; else [batch, length, heads * head_dim]."""
        helper = self.onnx.helper
        batch, heads, length, head_dim = shape
        if standard:
            node = helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=int(causal))
        else:
            shape = (batch, length, heads * head_dim)
            options = dict(domain="com.microsoft", num_heads=heads, unidirectional=int(causal))
            node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["y"], **options)
        values = [helper.make_tensor_value_info(name, self.onnx.TensorProto.FLOAT, shape) for name in "qkvy"]
        graph = helper.make_graph([node], "attention", values[:3], values[3:])
        opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()

    def session(self, model, threads, optimized_path=None):
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        if optimized_path:
            options.optimized_model_filepath = str(optimized_path)
        return self.runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def keeps_standard_node(self):
        """Whether Attention has a kernel: without one, the runtime refuses it or replaces it by its definition."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "optimized.onnx"
            try:
                self.session(self.model((1, 1, 2, 4), False, standard=True), 1, path)
            except Exception:  # the runtime's own exceptions have no common base
                return False
            return [node.op_type for node in self.onnx.load(path).graph.node] == ["Attention"]

    def attention(self, inputs, causal, threads):
        """The side for query, key and value [batch, heads, length, head_dim]."""
        batch, heads, length, head_dim = shape = tuple(inputs[0].shape)
        standard = self.has_standard_kernel
        session = self.session(self.model(shape, causal, standard), threads)
        if not standard:
            inputs = [x.transpose(1, 2).reshape(batch, length, heads * head_dim) for x in inputs]
        # Values of the runtime's own, so that neither inputs nor results are copied in a call.
        arrays = [x.contiguous().numpy() for x in inputs]
        values = dict(zip("qkv", map(self.runtime.OrtValue.ortvalue_from_numpy, arrays)))

        def read(results):
            output = torch.from_numpy(results[0].numpy())
            return output if standard else output.reshape(batch, length, heads, head_dim).transpose(1, 2)

        def run(arrays=arrays):  # the values point into the arrays
            return session.run_with_ort_values(["y"], values)

        return Side(run=run, read=read)


@functools.cache
def find_peers():
    """([peer], {name: why it is not there})"""
    found, missing = [], {}
    for kind in (Jax, OnnxRuntime):
        try:
            found.append(kind())
        except ImportError as error:
            missing[kind.name] = str(error)
    return found, missing


def attention_sides(inputs, causal, threads):
    """{name: side} of every peer that is installed."""
    return {peer.name: peer.attention(inputs, causal, threads) for peer in find_peers()[0]}


def key_of(name):
    """The name as it begins the fields of a row: "onnx_runtime"."""
    return name.lower().replace(" ", "_")
