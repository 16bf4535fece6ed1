// Matrix products against a plain triple loop in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "headway/threads.h"
#include "support/matmul_case.h"

namespace {

using headway::Activation;
using headway::DType;
using headway_test::expect_right;
using headway_test::kActivations;
using headway_test::kOrders;
using headway_test::matmul;
using headway_test::Order;
using headway_test::Tensors;
using Case = headway_test::MatmulCase;

struct Types {
  DType dtype, result;
};
constexpr Types kTypes[] = {{DType::float32, DType::float32},   {DType::float64, DType::float64},
                            {DType::bfloat16, DType::bfloat16}, {DType::bfloat16, DType::float32},
                            {DType::float16, DType::float16},   {DType::float16, DType::float32}};

// A product of this size and these dtypes; the rest is as given.
Case sized(std::int64_t rows, std::int64_t columns, std::int64_t depth, const Types& types, Case rest = {}) {
  rest.rows = rows;
  rest.columns = columns;
  rest.depth = depth;
  rest.dtype = types.dtype;
  rest.result_dtype = types.result;
  return rest;
}

TEST(Matmul, SizesAroundTileEdges) {
  constexpr std::int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 65};
  for (const Types& types : kTypes) {
    for (const std::int64_t rows : kSizes) {
      for (const std::int64_t columns : kSizes) {
        for (const std::int64_t depth : {1, 2, 3, 4, 7, 16, 19}) {
          const Order b = (rows + columns + depth) % 2 == 0 ? Order::rows : Order::columns;
          const Order a = (rows + depth) % 3 == 0 ? Order::columns : Order::rows;
          expect_right(sized(rows, columns, depth, types, {.a = a, .b = b, .bias = depth % 2 == 0}));
        }
      }
    }
  }
}

TEST(Matmul, AllOrders) {
  for (const Types& types : kTypes) {
    for (const Order a : kOrders) {
      for (const Order b : kOrders) {
        for (const Order c : kOrders) {
          for (const std::int64_t rows : {3, 18, 70}) {
            expect_right(sized(rows, 49, 37, types, {.a = a, .b = b, .result = c, .bias = true}));
            expect_right(sized(rows, 48, 34, types,
                               {.batch = 2,
                                .a = a,
                                .b = b,
                                .result = c,
                                .before = Order::padded_rows,
                                .activation = Activation::relu,
                                .keeps_before = true}));
          }
        }
      }
    }
  }
}

TEST(Matmul, LargerSizes) {
  struct Size {
    std::int64_t rows, columns, depth;
  };
  constexpr Size kSizes[] = {{63, 64, 65},   {127, 128, 129}, {129, 127, 128}, {200, 513, 96},  {17, 640, 513},
                             {513, 31, 257}, {16, 256, 2051}, {300, 40, 1030}, {33, 35, 4100},  {8, 1000, 64},
                             {1000, 8, 64},  {1, 700, 300},   {700, 1, 300},   {24, 1030, 1100}};
  for (const Types& types : kTypes) {
    for (const Size size : kSizes) {
      for (const bool transposed : {false, true}) {
        Case c = sized(size.rows, size.columns, size.depth, types);
        c.a = transposed ? Order::columns : Order::rows;
        c.b = Order::columns;
        c.bias = transposed;
        expect_right(c);
        c.b = Order::rows;
        c.activation = Activation::gelu;
        c.keeps_before = true;
        expect_right(c);
        c.result = Order::columns;
        expect_right(c);
      }
    }
  }
}

// More of B than is packed at a time.
TEST(Matmul, Parts) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    expect_right(sized(264, 1030, 1030, {dtype, dtype}, {.bias = true}));
  }
}

TEST(Matmul, Activations) {
  for (const Types& types : kTypes) {
    for (const Activation activation : kActivations) {
      for (const bool keeps : {false, true}) {
        for (const Order before : {Order::rows, Order::scattered}) {
          Case c = sized(37, 70, 20, types,
                         {.before = before, .bias = true, .activation = activation, .keeps_before = keeps});
          c.b = Order::columns;
          expect_right(c);
          c.rows = 5;
          expect_right(c);
          c.result = Order::columns;
          expect_right(c);
        }
      }
    }
  }
}

TEST(Matmul, AddsToTheResult) {
  for (const Types& types : kTypes) {
    if (types.result != DType::float32 && types.result != DType::float64) continue;
    for (const Order order : kOrders) {
      for (const std::int64_t depth : {0, 5, 64, 2100}) {
        expect_right(sized(41, 75, depth, types, {.a = Order::columns, .result = order, .accumulate = true}));
        expect_right(sized(9, 100, depth, types, {.b = Order::columns, .result = order, .accumulate = true}));
      }
    }
  }
}

TEST(Matmul, Batches) {
  for (const Types& types : kTypes) {
    for (const std::int64_t batch : {2, 3, 20, 33}) {
      for (const Order order : {Order::rows, Order::columns, Order::padded_rows}) {
        for (const int repeats : {0, 1, 2, 3}) {
          Case c = sized(13, 21, 11, types, {.batch = batch});
          c.a = c.b = order;
          c.repeats_a = repeats % 2 == 1;
          c.repeats_b = repeats / 2 == 1;
          expect_right(c);
        }
      }
    }
    expect_right(
        sized(70, 90, 64, types, {.batch = 3, .b = Order::columns, .bias = true, .activation = Activation::silu}));
  }
}

TEST(Matmul, Empty) {
  for (const Types& types : kTypes) {
    for (const Activation activation : {Activation::none, Activation::sigmoid}) {
      expect_right(sized(9, 40, 0, types, {.bias = true, .activation = activation}));
      expect_right(sized(40, 9, 0, types, {.b = Order::columns, .activation = activation}));
      expect_right(sized(0, 9, 3, types));
      expect_right(sized(9, 0, 3, types));
      expect_right(sized(9, 3, 3, types, {.batch = 0}));
    }
  }
}

// The bits of a result on a number of threads.
std::vector<std::byte> bits_on(int threads, const Case& c, Tensors& t) {
  t.result.for_each([&](std::int64_t n, std::int64_t i, std::int64_t j) { t.result.set(n, i, j, 0); });
  const int before = headway::num_threads();
  headway::set_num_threads(threads);
  matmul(t.problem(c));
  headway::set_num_threads(before);
  return t.result.bytes();
}

TEST(Matmul, TheSameBitsOnAnyNumberOfThreads) {
  std::vector<Case> cases;
  for (const Types& types : kTypes) {
    for (const Order a : {Order::rows, Order::columns}) {
      for (const Order b : {Order::rows, Order::columns}) {
        cases.push_back(sized(300, 200, 130, types, {.a = a, .b = b}));
        cases.push_back(sized(40, 600, 1100, types, {.a = a, .b = b, .bias = true, .activation = Activation::gelu}));
        cases.push_back(sized(270, 530, 2200, types, {.a = a, .b = b}));
        cases.push_back(sized(70, 64, 32, types, {.batch = 21, .a = a, .b = b}));
      }
    }
  }
  for (const Case& c : cases) {
    if (is_left_out(c)) continue;
    Tensors t(c);
    const std::vector<std::byte> one = bits_on(1, c, t);
    for (const int threads : {2, 3, 5}) EXPECT_TRUE(bits_on(threads, c, t) == one) << c.name() << threads << " threads";
  }
}

TEST(Matmul, SpecialValuesPass) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Types& types : kTypes) {
    for (const Order b : {Order::rows, Order::columns}) {
      for (const std::int64_t rows : {6, 70}) {
        const Case c = sized(rows, 37, 19, types, {.b = b});
        Tensors t(c);
        t.a.for_each([&](std::int64_t n, std::int64_t i, std::int64_t k) { t.a.set(n, i, k, i == 2 ? 0 : 1); });
        t.b.for_each([&](std::int64_t n, std::int64_t k, std::int64_t j) { t.b.set(n, k, j, 1); });
        t.b.set(0, 18, 35, nan);
        t.b.set(0, 3, 20, infinity);
        t.a.set(0, 5, 18, nan);
        matmul(t.problem(c));
        t.result.for_each([&](std::int64_t n, std::int64_t i, std::int64_t j) {
          const double value = t.result.get(n, i, j);
          if (j == 35 || i == 5 || (i == 2 && j == 20)) {
            EXPECT_TRUE(std::isnan(value)) << c.name() << i << " " << j;
          } else {
            EXPECT_EQ(value, j == 20 ? infinity : (i == 2 ? 0 : 19)) << c.name() << i << " " << j;
          }
        });
      }
    }
  }
}

}  // namespace
