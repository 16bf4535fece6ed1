#include "cuda/case_report.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <thread>

#include "cuda/device_problem.h"

namespace headway_test {
namespace {

using headway::AttentionBackward;
using headway::DType;
using headway::Shape;
using headway::Tensor;

// What a failure may depend on, in words.
std::vector<std::string> traits_of(const Case& c) {
  std::vector<std::string> traits;
  const std::vector<int> levels = levels_of(c);
  for (std::size_t row = 0; row < levels.size(); ++row) {
    const OptionRow& option = option_rows()[row];
    traits.push_back(std::string(option.name) + " " +
                     std::string(option.levels[static_cast<std::size_t>(levels[row])]));
  }
  traits.push_back("head_dim " + std::to_string(c.head_dim));
  traits.push_back("queries up to " + std::to_string((c.query_length + 63) / 64 * 64));
  traits.push_back("keys up to " + std::to_string((c.key_length + 63) / 64 * 64));
  return traits;
}

// In place of a result that is missing or has the wrong shape or dtype: words, else nothing.
std::string shape_problem(const Tensor& actual, const Tensor& like) {
  if (!actual.defined()) return "is undefined, expected " + like.describe();
  if (actual.shape() == like.shape() && actual.dtype() == like.dtype()) return {};
  return "is " + actual.describe() + ", expected " + like.describe();
}

// Computes the references of cases [begin, end), one thread per case at a time.
std::vector<Expected> expected_of_range(const std::vector<Case>& cases, std::size_t begin, std::size_t end) {
  std::vector<Expected> results(end - begin);
  std::atomic<std::size_t> next = begin;
  const auto work = [&] {
    for (std::size_t index = next++; index < end; index = next++) results[index - begin] = expected_of(cases[index]);
  };
  std::vector<std::thread> threads;
  for (unsigned n = 1; n < std::max(1u, std::thread::hardware_concurrency()); ++n) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace

Expected expected_of(const Case& c) {
  Expected expected;
  expected.c = c;
  expected.problem = build(c);
  expected.exact = reference_forward(expected.problem, &expected.spread);
  expected.naive = naive_forward(expected.problem);
  expected.exact_gradients = reference_backward(expected.problem, &expected.gradient_spread);
  expected.naive_gradients = naive_backward(expected.problem);
  return expected;
}

void CaseReport::expect(const Case& c, const std::string& what, const Comparison& comparison) {
  if (!(comparison.error <= comparison.bound)) {
    messages_.add(describe(c) + "\n  " + what + ": " + comparison.worst);
  }
  Nearest& nearest = nearest_[std::string(headway::dtype_name(c.dtype))];
  if (comparison.ratio() >= nearest.ratio) nearest = {comparison.ratio(), what + " of " + c.name};
}

void CaseReport::compare_all(const Expected& e) {
  const Case& c = e.c;
  const AttentionBackward& p = e.problem;
  const Named results = run_on_gpu(p, c.seed % 2 == 1);  // masks and lengths are on the GPU every other time
  const DType arithmetic = c.dtype == DType::float64 ? DType::float64 : DType::float32;
  const Shape rows = {p.query.size(0), p.query.size(1), p.query.size(2)};
  Shape output = rows, weights = rows;
  output.push_back(p.value.size(3));
  weights.push_back(p.key.size(2));
  if (c.weights == Weights::mean) weights = {p.query.size(0), p.query.size(2), p.key.size(2)};
  const double score = e.spread.score, logsumexp = e.spread.logsumexp;
  const DType bias = c.bias && c.dtype == DType::float64 ? p.options.bias.dtype() : c.dtype;
  const GradientValues &exact = e.exact_gradients, &naive = e.naive_gradients;
  const GradientSpread& spread = e.gradient_spread;
  struct Wanted {
    Tensor like;  // undefined: the result is too
    const std::vector<double>&exact, &naive;
    BoundOf bound;
  };
  const Tensor none;
  const Wanted wanted[] = {
      {Tensor::empty(output, c.dtype), e.exact.output, e.naive.output, {c.dtype, e.spread.output, score}},
      {Tensor::empty(rows, arithmetic), e.exact.logsumexp, e.naive.logsumexp, {arithmetic, 1, score}},
      {c.weights == Weights::none ? none : Tensor::empty(weights, c.dtype),
       e.exact.weights,
       e.naive.weights,
       {c.dtype, 0, score, logsumexp}},
      {p.query, exact.query, naive.query, {c.dtype, spread.query, score, logsumexp}},
      {p.key, exact.key, naive.key, {c.dtype, spread.key, score, logsumexp}},
      {p.value, exact.value, naive.value, {c.dtype, spread.value, score, logsumexp}},
      {c.bias && c.bias_gradient ? p.options.bias : none,
       exact.bias,
       naive.bias,
       {bias, spread.bias, score, logsumexp}},
      {p.options.sinks, exact.sinks, naive.sinks, {c.dtype, spread.sinks, score, logsumexp}}};
  for (std::size_t n = 0; n < results.size(); ++n) {
    const auto& [name, actual] = results[n];
    if (!wanted[n].like.defined()) {
      if (actual.defined()) messages_.add(describe(c) + "\n  " + name + " is " + actual.describe() + ", expected none");
      continue;
    }
    const std::string wrong = shape_problem(actual, wanted[n].like);
    if (!wrong.empty()) {
      messages_.add(describe(c) + "\n  " + name + " " + wrong);
    } else {
      expect(c, name, compare(actual, wanted[n].exact, wanted[n].naive, wanted[n].bound));
    }
  }
}

void CaseReport::check(const Expected& expected) {
  const int before = messages_.count();
  messages_.guarded(describe(expected.c), [&] { compare_all(expected); });
  const int failed = messages_.count() > before ? 1 : 0;
  ++cases_.all;
  cases_.failed += failed;
  if (failed != 0) failed_names_.push_back(expected.c.name);
  for (const std::string& trait : traits_of(expected.c)) {
    Count& count = traits_[trait];
    ++count.all;
    count.failed += failed;
  }
}

void CaseReport::print() const {
  for (const auto& [name, nearest] : nearest_) {
    std::cout << "worst error / bound: " << name << " " << nearest.ratio << " (" << nearest.where << ")\n";
  }
  std::cout << cases_.failed << " of " << cases_.all << " cases failed\n";
  if (cases_.failed == 0) return;
  for (const std::string& name : failed_names_) std::cout << "  failed: HEADWAY_TEST_CASE=" << name << "\n";
  // A trait whose cases fail more often than others, the clearest first.
  constexpr std::size_t kShown = 12;
  const double usual = static_cast<double>(cases_.failed) / cases_.all;
  std::multimap<double, std::string, std::greater<>> traits;
  for (const auto& [trait, count] : traits_) {
    const double share = static_cast<double>(count.failed) / count.all;
    if (count.failed == 0 || share <= usual) continue;
    traits.emplace((share - usual) * count.failed,
                   trait + ": " + std::to_string(count.failed) + " of " + std::to_string(count.all));
  }
  std::size_t shown = 0;
  for (const auto& [weight, text] : traits) {
    if (shown++ == kShown) break;
    std::cout << "  failed with " << text << "\n";
  }
}

void expect_cases_match(std::vector<Case> cases, bool deterministic) {
  if (const char* name = std::getenv("HEADWAY_TEST_CASE")) {
    std::erase_if(cases, [&](const Case& c) { return c.name != name; });
  }
  constexpr std::size_t kAtOnce = 256;  // as many references are kept in memory
  CaseReport report;
  for (std::size_t begin = 0; begin < cases.size(); begin += kAtOnce) {
    const std::size_t end = std::min(cases.size(), begin + kAtOnce);
    for (Expected& expected : expected_of_range(cases, begin, end)) {
      expected.problem.options.deterministic = deterministic;
      report.check(expected);
    }
  }
  report.print();
}

}  // namespace headway_test
