// Communicators, also over an engine that is written in Python, and attention over a cut sequence.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <utility>

#include "bindings/attention_options.h"
#include "headway/autograd.h"
#include "headway/communicator.h"
#include "headway/ops.h"
#include "headway/sequence_parallel.h"

namespace headway::python {
namespace {

using namespace nb::literals;

// ---- an engine in Python ----

// Memory as a tensor of as many one-byte elements.
nb::object bytes_at(const void* data, std::size_t bytes, Device device) {
  const auto count = static_cast<std::int64_t>(bytes);
  return nb::cast(Tensor::wrap(const_cast<void*>(data), {count}, {1}, DType::boolean, {}, device));
}

class PythonMessages : public Transport::Messages {
 public:
  explicit PythonMessages(const nb::object& messages) : messages_(released_with_lock(messages)) {}
  bool done() override {
    const LockHeld held;
    return read_flag("Communicator: what done() of the engine's messages returned",
                     call_python(messages_->attr("done")));
  }
  void wait() override {
    const LockHeld held;
    call_python(messages_->attr("wait"));
  }

 private:
  std::shared_ptr<nb::object> messages_;
};

// Calls engine.start([(to, bytes), ...], [(from, bytes), ...]), whose result has done() and wait(). An engine has rank,
// size, devices (names of those whose memory it takes) and split(color, key), too.
class PythonTransport : public Transport {
 public:
  explicit PythonTransport(const nb::object& engine)
      : engine_(released_with_lock(engine)),
        rank_(nb::cast<int>(engine.attr("rank"))),
        size_(nb::cast<int>(engine.attr("size"))),
        description_(nb::cast<std::string>(nb::str(engine))) {
    for (const auto& name : nb::cast<std::vector<std::string>>(engine.attr("devices"))) {
      devices_.push_back(name == "cpu" ? Device::cpu() : Device::parse(name));
    }
    if (devices_.empty())
      throw nb::value_error("Communicator: the engine's devices are empty, expected \"cpu\" at least");
  }

  std::string description() const override { return description_; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Device device() const override { return devices_.front(); }
  bool moves(Device device) const override {
    for (const Device& own : devices_) {
      if (own == device) return true;
    }
    return false;
  }

  std::unique_ptr<Messages> start(const std::vector<Outgoing>& outgoing, const std::vector<Incoming>& incoming,
                                  Device device) override {
    const LockHeld held;
    nb::list sent, received;
    for (const Outgoing& message : outgoing) {
      sent.append(nb::make_tuple(message.to, bytes_at(message.data, message.bytes, device)));
    }
    for (const Incoming& message : incoming) {
      received.append(nb::make_tuple(message.from, bytes_at(message.data, message.bytes, device)));
    }
    return std::make_unique<PythonMessages>(call_python(engine_->attr("start"), sent, received));
  }

  std::shared_ptr<Transport> split(int color, int key) override {
    const LockHeld held;
    return std::make_shared<PythonTransport>(call_python(engine_->attr("split"), color, key));
  }

  // Engines of Python end their ranks by the exception that leaves the program.
  void fail(const std::string&) noexcept override {}

 private:
  std::shared_ptr<nb::object> engine_;
  int rank_;
  int size_;
  std::string description_;
  std::vector<Device> devices_;
};

// ---- attention ----

SequenceLayout read_layout(const std::string& argument, nb::handle value) {
  return read_choice(argument, value, {"contiguous", "zigzag"}) == 0 ? SequenceLayout::contiguous
                                                                     : SequenceLayout::zigzag;
}

SequenceMethod read_method(const std::string& argument, nb::handle value) {
  constexpr SequenceMethod kMethods[] = {SequenceMethod::automatic, SequenceMethod::ring, SequenceMethod::ulysses};
  return kMethods[read_choice(argument, value, {"auto", "ring", "ulysses"})];
}

// One call with what its gradients need. Every rank calls backward() once, or none does.
class SequenceAttentionCall {
 public:
  SequenceAttentionCall(const Tensor& query, const Tensor& key, const Tensor& value, AttentionOptions options)
      : query_(leaf(query)), key_(leaf(key)), value_(leaf(value)), options_(std::move(options)) {
    if (options_.bias.defined()) options_.bias = bias_ = leaf(options_.bias);
    if (options_.sinks.defined()) options_.sinks = sinks_ = leaf(options_.sinks);
  }

  void forward(const Communicator& ranks, const SequenceParallelOptions& parallel) {
    result_ = sequence_attention(query_, key_, value_, options_, ranks, parallel);
  }
  const AttentionResult& result() const { return result_; }
  const Tensor& query() const { return query_; }

  void backward(const Tensor& d_output, const Tensor& d_logsumexp, const Tensor& d_weights) {
    if (d_output.defined() && !d_logsumexp.defined() && !d_weights.defined()) {
      result_.output.backward(d_output);
      return;
    }
    Tensor total;
    const auto add_product = [&](const Tensor& result, const Tensor& gradient) {
      if (!gradient.defined()) return;
      const Tensor product = sum(result.to(DType::float32) * gradient.to(DType::float32));
      total = total.defined() ? total + product : product;
    };
    add_product(result_.output, d_output);
    add_product(result_.logsumexp, d_logsumexp);
    add_product(result_.weights, d_weights);
    total.backward();
  }
  std::vector<Tensor> gradients() const {
    std::vector<Tensor> all;
    for (const Tensor& tensor : {query_, key_, value_, bias_, sinks_}) {
      all.push_back(tensor.defined() ? tensor.grad() : Tensor());
    }
    return all;
  }

 private:
  static Tensor leaf(const Tensor& tensor) { return tensor.detach().set_requires_grad(); }

  Tensor query_, key_, value_, bias_, sinks_;
  AttentionOptions options_;
  AttentionResult result_;
};

// (output, logsumexp, weights or None, the call for sequence_attention_backward()).
nb::tuple attend(nb::handle query, nb::handle key, nb::handle value, const Communicator& ranks, nb::handle layout,
                 nb::handle method, bool wants_gradients, const nb::kwargs& given) {
  const std::string function = "sequence_attention";
  const Results results(query);
  const auto call = std::make_shared<SequenceAttentionCall>(
      read_tensor(function + ": query", query), read_tensor(function + ": key", key),
      read_tensor(function + ": value", value), read_attention_options(function, given));
  const SequenceParallelOptions parallel = {.layout = read_layout(function + ": layout", layout),
                                            .method = read_method(function + ": method", method)};
  {
    const StreamOf stream(call->query(), exchange_api_of(query));
    const LockReleased released;
    std::optional<NoGradGuard> guard;
    if (!wants_gradients) guard.emplace();
    call->forward(ranks, parallel);
  }
  count_call();
  const AttentionResult& result = call->result();
  return nb::make_tuple(results.give(result.output.detach()), results.give(result.logsumexp.detach()),
                        results.give(result.weights.defined() ? result.weights.detach() : Tensor()),
                        wants_gradients ? nb::cast(call) : nb::none());
}

nb::tuple attend_backward(SequenceAttentionCall& call, nb::handle d_output, nb::handle d_logsumexp,
                          nb::handle d_weights) {
  const auto read = [](const char* name, nb::handle value) {
    return value.is_none() ? Tensor() : read_tensor(std::string("sequence_attention_backward: ") + name, value);
  };
  nb::handle kind = !d_output.is_none() ? d_output : !d_logsumexp.is_none() ? d_logsumexp : d_weights;
  if (kind.is_none()) throw nb::value_error("sequence_attention_backward: no gradient is given, expected one at least");
  const Tensor output = read("d_output", d_output), logsumexp = read("d_logsumexp", d_logsumexp),
               weights = read("d_weights", d_weights);
  {
    const StreamOf stream(call.query(), exchange_api_of(kind));
    const LockReleased released;
    call.backward(output, logsumexp, weights);
  }
  count_call();
  const Results results(kind);
  nb::list all;
  for (const Tensor& gradient : call.gradients()) all.append(results.give(gradient));
  return nb::tuple(all);
}

std::vector<std::int64_t> positions(std::int64_t length, const Communicator& ranks, nb::handle layout) {
  const SequenceShares shares(length, ranks.size(), read_layout("sequence_positions: layout", layout));
  const Tensor own = shares.positions(ranks.rank());
  return {own.data<std::int64_t>(), own.data<std::int64_t>() + own.element_count()};
}

Reduce read_reduce(nb::handle value) {
  constexpr Reduce kWays[] = {Reduce::sum, Reduce::max, Reduce::min};
  return kWays[read_choice("all_reduce: how", value, {"sum", "max", "min"})];
}

void bind_communicator(nb::module_& module) {
  using Ranks = Communicator;
  nb::class_<Ranks>(module, "Communicator",
                    "Ranks that compute together, as one of them sees it: processes of mpirun or srun, threads, or the "
                    "processes of torch.distributed. Communicator() is one rank alone.")
      .def(nb::init<>())
      .def_static("mpi", &Ranks::mpi, "All processes that mpirun or srun started.")
      .def_static("world", &Ranks::world, "mpi() under mpirun or srun, else one rank alone.")
      .def_static("local", &Ranks::local, "size"_a,
                  "Threads of this process as ranks: entry r is for the thread of rank r.")
      .def_static(
          "of_engine", [](const nb::object& engine) { return Ranks(std::make_shared<PythonTransport>(engine)); },
          "engine"_a,
          "Ranks over an engine in Python, an object with rank, size, devices, start(sent, received) and split(color, "
          "key); headway.torch has one for torch.distributed.")
      .def_prop_ro("rank", &Ranks::rank)
      .def_prop_ro("size", &Ranks::size)
      .def("__repr__",
           [](const Ranks& ranks) {
             return "Communicator(rank " + std::to_string(ranks.rank()) + " of " + std::to_string(ranks.size()) + ", " +
                    ranks.description() + ")";
           })
      .def(
          "barrier",
          [](const Ranks& ranks) {
            const LockReleased released;
            ranks.barrier();
          },
          "Returns when every rank has called it.")
      .def(
          "broadcast",
          [](const Ranks& ranks, const Tensor& values, int root) {
            const LockReleased released;
            ranks.broadcast(values, root);
          },
          "values"_a, "root"_a = 0, "Every rank's tensor becomes the root's, in place.")
      .def(
          "all_reduce",
          [](const Ranks& ranks, const Tensor& values, nb::handle how) {
            const Reduce way = read_reduce(how);
            const LockReleased released;
            ranks.all_reduce(values, way);
          },
          "values"_a, "how"_a = "sum", "Every rank's tensor becomes the sum, max or min of all, in place.")
      .def(
          "all_gather",
          [](const Ranks& ranks, const Tensor& share, const std::vector<std::int64_t>& counts) {
            const LockReleased released;
            return ranks.all_gather(share, counts);
          },
          "share"_a, "counts"_a = std::vector<std::int64_t>(),
          "The ranks' rows, one after another; counts: how many each has, by default the same.")
      .def(
          "reduce_scatter",
          [](const Ranks& ranks, const Tensor& values, const std::vector<std::int64_t>& counts) {
            const LockReleased released;
            return ranks.reduce_scatter(values, counts);
          },
          "values"_a, "counts"_a = std::vector<std::int64_t>(), "This rank's rows of the sum of all ranks' tensors.")
      .def(
          "split",
          [](const Ranks& ranks, int color, int key) {
            const LockReleased released;
            return ranks.split(color, key);
          },
          "color"_a, "key"_a = 0, "The ranks of one color as a communicator of their own.")
      .def("fail", &Ranks::fail, "why"_a, "Ends what other ranks wait for with an error that names this one.")
      .def_prop_ro(
          "counts",
          [](const Ranks& ranks) {
            const TransferCounts counts = ranks.counts();
            nb::dict result;
            result["messages_sent"] = counts.messages_sent;
            result["bytes_sent"] = counts.bytes_sent;
            result["seconds_waited"] = counts.seconds_waited;
            return result;
          },
          "What this rank has sent, and how long it has waited.");
}

}  // namespace

void bind_distributed(nb::module_& module) {
  bind_communicator(module);
  nb::class_<SequenceAttentionCall>(module, "SequenceAttentionCall", "What the gradients of one call need.");
  module.def("sequence_attention", &attend, "query"_a, "key"_a, "value"_a, "ranks"_a, "layout"_a, "method"_a,
             "wants_gradients"_a, "options"_a,
             "Attention over a sequence that is cut over ranks: (output, logsumexp, weights or None, call or None).");
  module.def("sequence_attention_backward", &attend_backward, "call"_a, "d_output"_a.none(), "d_logsumexp"_a.none(),
             "d_weights"_a.none(),
             "The gradients (query, key, value, bias or None, sinks or None) of this rank's share.");
  module.def("sequence_positions", &positions, "length"_a, "ranks"_a, "layout"_a,
             "The positions of this rank's tokens in a sequence.");
}

}  // namespace headway::python
