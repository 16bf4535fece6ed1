// Training on the GPU: the losses of the CPU, the same bits in every run, and state that moves between the two.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "cuda/device_problem.h"
#include "cuda/messages.h"
#include "headway/autograd.h"
#include "headway/layers.h"
#include "headway/ops.h"
#include "headway/optimizer.h"
#include "headway/random.h"
#include "headway/transformer.h"

namespace headway_test {
namespace {

using headway::AdamW;
using headway::Device;
using headway::DType;
using headway::Mask;
using headway::NamedTensor;
using headway::StateDict;
using headway::Tensor;
using std::int64_t;

constexpr int64_t kVocabulary = 50, kWidth = 32, kBatch = 6, kLength = 11, kPadding = 0;

// Tokens of a sentence to read, and of the same backwards to write.
struct Batch {
  Tensor source;   // [batch, length] int64, padded at the end
  Tensor padding;  // [batch, length] bool: true where it is padding
  Tensor target;   // [batch, length] int64, the decoder's input
  Tensor labels;   // [batch, length] int64, what it should say
};

Batch batch_of(int64_t step) {
  std::vector<int64_t> source, target, labels;
  std::vector<bool> padding;
  for (int64_t b = 0; b < kBatch; ++b) {
    const int64_t count = kLength - (b + step) % 4;
    const auto token = [&](int64_t i) { return 2 + (7 * i + 13 * b + 5 * step) % (kVocabulary - 2); };
    for (int64_t i = 0; i < kLength; ++i) {
      const bool past = i >= count;
      source.push_back(past ? kPadding : token(i));
      padding.push_back(past);
      labels.push_back(past ? kPadding : token(count - 1 - i));
      target.push_back(i == 0 ? 1 : labels[labels.size() - 2]);
    }
  }
  const headway::Shape shape = {kBatch, kLength};
  return {Tensor::from(source, shape), Tensor::from(padding, shape), Tensor::from(target, shape),
          Tensor::from(labels, shape)};
}

// A small translator: one embedding for both sides and for the output, positions, and a Transformer.
class SmallTranslator : public headway::Module {
 public:
  explicit SmallTranslator(DType dtype)
      : embedding_({.count = kVocabulary, .width = kWidth, .padding_index = kPadding, .dtype = dtype}),
        positions_({.max_length = 64, .width = kWidth, .dropout = 0.1, .dtype = dtype}),
        transformer_({.layer = {.d_model = kWidth,
                                .nhead = 4,
                                .dim_feedforward = 64,
                                .dropout = 0.1,
                                .activation = headway::Activation::gelu,
                                .dtype = dtype},
                      .num_encoder_layers = 2,
                      .num_decoder_layers = 2}) {
    add_module("embedding", embedding_);
    add_module("positions", positions_);
    add_module("transformer", transformer_);
  }

  Tensor loss(const Batch& batch, Device device) const {
    const Mask padding = Mask::drop(batch.padding.to(device));
    const auto decoded = transformer_.forward({.source = positions_.forward(embedding_.forward(batch.source)),
                                               .target = positions_.forward(embedding_.forward(batch.target)),
                                               .source_padding_mask = padding,
                                               .memory_padding_mask = padding,
                                               .target_causal = headway::Causal::top_left});
    const Tensor logits = headway::linear(decoded.output, embedding_.weight().get());
    return headway::cross_entropy(logits, batch.labels, {.ignore_index = kPadding, .label_smoothing = 0.1});
  }

 private:
  headway::Embedding embedding_;
  headway::SinusoidalPositions positions_;
  headway::Transformer transformer_;
};

// A translator with its optimizer on a device. The same seed gives the same weights everywhere.
struct Training {
  Device device;
  std::unique_ptr<SmallTranslator> model;
  std::unique_ptr<AdamW> optimizer;

  Training(Device where, DType dtype) : device(where) {
    headway::set_random_seed(42);
    model = std::make_unique<SmallTranslator>(dtype);
    model->to(device);
    optimizer = std::make_unique<AdamW>(*model, headway::AdamOptions{.learning_rate = 3e-3});
  }

  // Losses of the steps [begin, end), with the gradient clipped and dropout on.
  std::vector<double> run(int64_t begin, int64_t end) {
    std::vector<double> losses;
    for (int64_t step = begin; step < end; ++step) {
      const Tensor loss = model->loss(batch_of(step), device);
      optimizer->zero_grad();
      loss.backward();
      headway::clip_gradient_norm(optimizer->parameters(), 1.0);
      optimizer->step();
      losses.push_back(loss.item());
    }
    return losses;
  }
};

void expect_near(const std::vector<double>& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t n = 0; n < actual.size(); ++n) {
    EXPECT_NEAR(actual[n], expected[n], tolerance * expected[n]) << "step " << n;
  }
}

TEST(CudaTraining, LossesAreThoseOfTheCpu) {
  for (const auto& [dtype, tolerance] : {std::pair{DType::float32, 1e-3}, {DType::float64, 1e-8}}) {
    SCOPED_TRACE(headway::dtype_name(dtype));
    const std::vector<double> there = Training(Device::cuda(), dtype).run(0, 20);
    const std::vector<double> here = Training(Device::cpu(), dtype).run(0, 20);
    expect_near(there, here, tolerance);
    EXPECT_NEAR(there[0], here[0], 1e-5 * here[0]);
    EXPECT_LT(there.back(), 0.8 * there.front()) << "nothing is learned";
  }
}

// Mixed precision, the optimizer's default for 16-bit parameters: the same course as on the CPU and as in float32, and
// the same bits in every run.
TEST(CudaTraining, MixedPrecision) {
  Training mixed(Device::cuda(), DType::bfloat16);
  const std::vector<double> losses = mixed.run(0, 20);
  expect_near(losses, Training(Device::cpu(), DType::bfloat16).run(0, 20), 0.03);
  expect_near(losses, Training(Device::cuda(), DType::float32).run(0, 20), 0.03);
  Training again(Device::cuda(), DType::bfloat16);
  EXPECT_EQ(again.run(0, 20), losses);
  const StateDict masters = mixed.optimizer->master_weights();
  for (const NamedTensor& parameter : mixed.optimizer->parameters()) {
    const Tensor& master = masters.at(parameter.name);
    EXPECT_EQ(master.dtype(), DType::float32) << parameter.name;
    EXPECT_EQ(master.device(), Device::cuda()) << parameter.name;
    EXPECT_TRUE(same_bits(on_cpu(master).to(DType::bfloat16), on_cpu(parameter.tensor.detach()))) << parameter.name;
    EXPECT_TRUE(same_bits(on_cpu(master), on_cpu(again.optimizer->master_weights().at(parameter.name))));
  }
}

TEST(CudaTraining, RunsInSixteenBits) {
  for (DType dtype : {DType::bfloat16, DType::float16}) {
    SCOPED_TRACE(headway::dtype_name(dtype));
    expect_near(Training(Device::cuda(), dtype).run(0, 5), Training(Device::cpu(), dtype).run(0, 5), 0.05);
  }
}

TEST(CudaTraining, RunsGiveTheSameBits) {
  Training first(Device::cuda(), DType::float32);
  const std::vector<double> losses = first.run(0, 20);
  Training second(Device::cuda(), DType::float32);
  EXPECT_EQ(second.run(0, 20), losses);
  const std::vector<NamedTensor> a = first.model->named_parameters(), b = second.model->named_parameters();
  for (std::size_t n = 0; n < a.size(); ++n) {
    EXPECT_TRUE(same_bits(on_cpu(a[n].tensor.detach()), on_cpu(b[n].tensor.detach()))) << a[n].name;
  }
}

// Half of the steps on one device, the other half on the other, with the moments and the random stream carried over.
TEST(CudaTraining, StateMovesBetweenDevices) {
  const std::vector<double> expected = Training(Device::cpu(), DType::float32).run(0, 20);
  const std::vector<double> last(expected.begin() + 10, expected.end());
  for (const auto& [from, to] : {std::pair{Device::cuda(), Device::cpu()}, {Device::cpu(), Device::cuda()}}) {
    SCOPED_TRACE("from " + from.name());
    Training first(from, DType::float32);
    first.run(0, 10);
    const headway::RandomState random = headway::random_state();
    Training second(to, DType::float32);
    second.model->load_state_dict(first.model->state_dict());
    second.optimizer->load_state_dict(first.optimizer->state_dict());
    headway::set_random_state(random);
    expect_near(second.run(10, 20), last, 1e-3);
    for (const NamedTensor& parameter : second.model->named_parameters()) {
      EXPECT_EQ(parameter.tensor.device(), to) << parameter.name;
    }
  }
}

TEST(CudaTraining, ModulesMoveThereAndBack) {
  headway::set_random_seed(1);
  const SmallTranslator model(DType::float32);
  model.eval();
  const Batch batch = batch_of(3);
  const double expected = model.loss(batch, Device::cpu()).item();
  model.to(Device::cuda());
  EXPECT_NEAR(model.loss(batch, Device::cuda()).item(), expected, 1e-5);
  for (const auto& [name, tensor] : model.state_dict()) EXPECT_EQ(tensor.device(), Device::cuda()) << name;
  model.to(Device::cpu());
  EXPECT_EQ(model.loss(batch, Device::cpu()).item(), expected);
}

// Token by token with caches, and with batch entries put in another order on the way, as all at once.
TEST(CudaTraining, DecodingWithCaches) {
  headway::set_random_seed(2);
  const headway::TransformerDecoder decoder(
      {.layer = {.d_model = 64, .nhead = 4, .dim_feedforward = 96}, .num_layers = 2});
  decoder.eval();
  decoder.to(Device::cuda());
  const headway::NoGradGuard no_grad;
  const Tensor memory = Tensor::randn({3, 9, 64}, 1).to(Device::cuda());
  const Tensor target = Tensor::randn({3, 7, 64}, 2).to(Device::cuda());
  const Tensor expected =
      decoder.forward({.target = target, .memory = memory, .target_causal = headway::Causal::top_left}).output;
  headway::DecoderCache cache;
  for (int64_t i = 0; i < 7; ++i) {
    const Tensor step = decoder.forward({.target = target.slice(1, i, i + 1), .memory = memory}, cache).output;
    EXPECT_TRUE(near(on_cpu(step), on_cpu(expected.slice(1, i, i + 1)), 1e-4)) << "token " << i;
    if (i == 3) {
      cache.reorder({2, 1, 0});
      cache.reorder({2, 1, 0});
    }
  }
}

// ---- optimizers ----

// Parameters of odd sizes with gradients, on a device.
std::vector<NamedTensor> parameters_on(Device device, DType dtype) {
  std::vector<NamedTensor> parameters;
  std::uint64_t seed = 1;
  for (const headway::Shape& shape : {headway::Shape{33, 7}, {1}, {0, 3}, {5000}, {70001}}) {
    Tensor tensor = Tensor::randn(shape, seed, dtype).to(device).detach();
    tensor.set_requires_grad();
    parameters.push_back({"parameter" + std::to_string(seed++), tensor});
  }
  return parameters;
}

void set_gradients(const std::vector<NamedTensor>& parameters, std::uint64_t seed) {
  for (const NamedTensor& parameter : parameters) {
    const Tensor& tensor = parameter.tensor;
    tensor.set_grad(Tensor::randn(tensor.shape(), seed++, tensor.dtype()).to(tensor.device()));
  }
}

using MakeOptimizer = std::function<std::unique_ptr<headway::Optimizer>(std::vector<headway::ParameterGroup>)>;

void expect_optimizer_agrees(Messages& messages, const std::string& name, const MakeOptimizer& make) {
  for (DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16}) {
    const std::string where = name + " " + std::string(headway::dtype_name(dtype)) + " ";
    messages.guarded(where, [&] {
      const auto trained = [&](Device device) {
        const std::vector<NamedTensor> parameters = parameters_on(device, dtype);
        const auto optimizer = make({{.parameters = parameters}});
        for (std::uint64_t step = 0; step < 6; ++step) {
          set_gradients(parameters, 100 * (step + 1));
          optimizer->step(step % 2 == 0 ? 1.0 : 0.25);
        }
        StateDict state = optimizer->state_dict();
        for (const NamedTensor& parameter : parameters) state[parameter.name] = parameter.tensor.detach();
        return state;
      };
      const StateDict there = trained(Device::cuda()), here = trained(Device::cpu());
      if (there.size() != here.size()) messages.add(where + "has other state");
      for (const auto& [key, tensor] : here) {
        const auto found = there.find(key);
        if (found == there.end()) continue;
        messages.expect(near(on_cpu(found->second), tensor, tolerance_of(dtype)), where + key);
      }
    });
  }
}

TEST(CudaOptimizers, AgreeWithTheCpu) {
  Messages messages;
  for (bool nesterov : {false, true}) {
    expect_optimizer_agrees(messages, "Sgd", [&](auto groups) {
      return std::make_unique<headway::Sgd>(
          groups,
          headway::SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.02, .nesterov = nesterov});
    });
  }
  expect_optimizer_agrees(messages, "Sgd without momentum", [&](auto groups) {
    return std::make_unique<headway::Sgd>(groups, headway::SgdOptions{.learning_rate = 0.1});
  });
  for (bool amsgrad : {false, true}) {
    const headway::AdamOptions options = {.learning_rate = 0.01, .weight_decay = 0.1, .amsgrad = amsgrad};
    expect_optimizer_agrees(messages, "Adam",
                            [&](auto groups) { return std::make_unique<headway::Adam>(groups, options); });
    expect_optimizer_agrees(messages, "AdamW", [&](auto groups) { return std::make_unique<AdamW>(groups, options); });
  }
}

// Steps below the resolution of 16 bits add up in the master; an element that is set otherwise starts there.
TEST(CudaOptimizers, MastersKeepWhatIsBelowTheResolution) {
  for (DType dtype : {DType::bfloat16, DType::float16}) {
    SCOPED_TRACE(headway::dtype_name(dtype));
    const double little = dtype == DType::bfloat16 ? 0x1p-14 : 0x1p-17;  // 1 / 64 of the last digit below 1
    for (bool masters : {false, true}) {
      Tensor parameter = Tensor::full({5001}, 1.0, dtype).to(Device::cuda()).detach();
      parameter.set_requires_grad();
      headway::Sgd optimizer({{.parameters = {{"p", parameter}}}},
                             {.learning_rate = little, .master_weights = masters});
      const auto take_steps = [&] {
        parameter.set_grad(Tensor::full({5001}, 1.0, dtype).to(Device::cuda()));
        for (int step = 0; step < 128; ++step) optimizer.step();
      };
      take_steps();
      EXPECT_EQ(on_cpu(parameter.detach()).to_vector(), std::vector<double>(5001, masters ? 1 - 128 * little : 1.0));
      Tensor(parameter.detach()).fill(1.0);
      take_steps();
      EXPECT_EQ(on_cpu(parameter.detach()).to_vector(), std::vector<double>(5001, masters ? 1 - 128 * little : 1.0));
    }
  }
}

TEST(CudaOptimizers, GradientNorms) {
  for (DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16}) {
    SCOPED_TRACE(headway::dtype_name(dtype));
    const std::vector<NamedTensor> there = parameters_on(Device::cuda(), dtype),
                                   here = parameters_on(Device::cpu(), dtype);
    set_gradients(there, 5);
    set_gradients(here, 5);
    const headway::GradientNorms actual = headway::gradient_norms(there), expected = headway::gradient_norms(here);
    EXPECT_NEAR(actual.total, expected.total, 1e-6 * expected.total);
    ASSERT_EQ(actual.parameters.size(), expected.parameters.size());
    for (std::size_t n = 0; n < actual.parameters.size(); ++n) {
      EXPECT_NEAR(actual.parameters[n].norm, expected.parameters[n].norm, 1e-6 * expected.total);
    }
    EXPECT_NEAR(headway::clip_gradient_norm(there, 2.0), expected.total, 1e-6 * expected.total);
    EXPECT_NEAR(headway::gradient_norms(there).total, 2.0, 0.02);
    there[3].tensor.grad().slice(0, 7, 8).fill(std::nan(""));
    EXPECT_EQ(headway::gradient_norms(there).bad, std::vector<std::string>{there[3].name});
  }
}

}  // namespace
}  // namespace headway_test
