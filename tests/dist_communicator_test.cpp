// The operations of a communicator, by threads of one process as ranks, against plain loops over all ranks' values.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <new>
#include <thread>

#include "headway/communicator.h"
#include "headway/headway.h"
#include "support/message_of.h"

namespace headway {
namespace {

using headway_test::message_of;

constexpr DType kDTypes[] = {DType::float32, DType::float64, DType::bfloat16, DType::float16,
                             DType::int32,   DType::int64,   DType::boolean,  DType::int8};

// What rank `rank` brings: small whole numbers, exact in every dtype.
Tensor values_of(int rank, const Shape& shape, DType dtype) {
  const Tensor uniform = Tensor::uniform(shape, 0.0, 8.0, static_cast<std::uint64_t>(rank) + 1);
  std::vector<double> whole = uniform.to_vector();
  for (double& value : whole) value = dtype == DType::boolean ? value > 4.0 : std::floor(value);
  return Tensor::from(whole, shape).to(dtype);
}

std::vector<double> reduced(const std::vector<Tensor>& terms, Reduce how) {
  std::vector<double> result = terms.front().to_vector();
  for (std::size_t r = 1; r < terms.size(); ++r) {
    const std::vector<double> term = terms[r].to_vector();
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (how == Reduce::sum) result[i] += term[i];
      if (how == Reduce::max) result[i] = std::max(result[i], term[i]);
      if (how == Reduce::min) result[i] = std::min(result[i], term[i]);
    }
  }
  if (terms.front().dtype() == DType::boolean) {
    for (double& value : result) value = value != 0.0;
  }
  return result;
}

std::vector<Tensor> all_values(int size, const Shape& shape, DType dtype) {
  std::vector<Tensor> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(values_of(rank, shape, dtype));
  return all;
}

class Ranks : public testing::TestWithParam<int> {};

TEST_P(Ranks, AllReduceOfEveryDtype) {
  run_ranks(GetParam(), [](const Communicator& ranks) {
    for (const DType dtype : kDTypes) {
      for (const Shape& shape : {Shape{}, Shape{3, 5}, Shape{0, 2}, Shape{4099, 3}}) {
        for (const Reduce how : {Reduce::sum, Reduce::max, Reduce::min}) {
          const Tensor own = values_of(ranks.rank(), shape, dtype);
          ranks.all_reduce(own, how);
          EXPECT_EQ(own.to_vector(), reduced(all_values(ranks.size(), shape, dtype), how)) << own.describe();
        }
      }
    }
  });
}

TEST_P(Ranks, ReduceScatterAndAllGather) {
  run_ranks(GetParam(), [](const Communicator& ranks) {
    const int size = ranks.size();
    for (const DType dtype : kDTypes) {
      for (const std::int64_t rows : {0, 1, 7, 1000}) {
        const std::vector<double> sum = reduced(all_values(size, {rows, 3}, dtype), Reduce::sum);
        const Tensor share = ranks.reduce_scatter(values_of(ranks.rank(), {rows, 3}, dtype));
        const std::vector<std::int64_t> counts = Communicator::even_counts(rows, size);
        EXPECT_EQ(share.size(0), counts[static_cast<std::size_t>(ranks.rank())]);
        EXPECT_EQ(ranks.all_gather(share, counts).to_vector(), sum);
      }
    }
  });
}

TEST_P(Ranks, SharesMayBeUneven) {
  run_ranks(GetParam(), [](const Communicator& ranks) {
    std::vector<std::int64_t> counts;
    for (int rank = 0; rank < ranks.size(); ++rank) counts.push_back(rank * rank);  // rank 0 has none
    std::int64_t rows = 0;
    for (const std::int64_t count : counts) rows += count;
    const Tensor values = values_of(ranks.rank(), {rows, 2}, DType::float32);
    const Tensor share = ranks.reduce_scatter(values, counts);
    EXPECT_EQ(ranks.all_gather(share, counts).to_vector(),
              reduced(all_values(ranks.size(), {rows, 2}, DType::float32), Reduce::sum));
  });
}

TEST_P(Ranks, BroadcastFromEveryRoot) {
  run_ranks(GetParam(), [](const Communicator& ranks) {
    for (int root = 0; root < ranks.size(); ++root) {
      const std::vector<double> expected = values_of(root, {5, 7}, DType::bfloat16).to_vector();
      const Tensor by_tree = values_of(ranks.rank(), {5, 7}, DType::bfloat16);
      ranks.broadcast(by_tree, root);
      EXPECT_EQ(by_tree.to_vector(), expected);
      const Tensor started = values_of(ranks.rank(), {7, 5}, DType::bfloat16).transpose(0, 1);  // not contiguous
      const Transfer transfer = ranks.start_broadcast(started, root);
      transfer.wait();
      EXPECT_EQ(started.transpose(0, 1).to_vector(), values_of(root, {7, 5}, DType::bfloat16).to_vector());
    }
  });
}

TEST_P(Ranks, AllToAllOfUnevenParts) {
  run_ranks(GetParam(), [](const Communicator& ranks) {
    std::vector<Tensor> parts, received;
    for (int other = 0; other < ranks.size(); ++other) {
      parts.push_back(Tensor::full({ranks.rank(), other + 1}, ranks.rank() * 100 + other));
      received.push_back(Tensor::zeros({other, ranks.rank() + 1}));
    }
    ranks.all_to_all(parts, received);
    for (int other = 0; other < ranks.size(); ++other) {
      for (const double value : received[static_cast<std::size_t>(other)].to_vector()) {
        EXPECT_EQ(value, other * 100 + ranks.rank());
      }
    }
  });
}

TEST_P(Ranks, ExchangeInARing) {
  run_ranks(GetParam(), [](const Communicator& ranks) {
    const int size = ranks.size(), next = (ranks.rank() + 1) % size, before = (ranks.rank() + size - 1) % size;
    Tensor travelling = Tensor::full({9}, ranks.rank(), DType::float16);
    for (int step = 1; step <= size; ++step) {
      const Tensor arrived = Tensor::zeros({9}, DType::float16);
      ranks.exchange(travelling, next, arrived, before);
      EXPECT_EQ(arrived.at({8}), (ranks.rank() - step + size * 2) % size);
      travelling = arrived;
    }
  });
}

TEST_P(Ranks, StartedTransfersEndInTheirOrder) {
  run_ranks(GetParam(), [](const Communicator& ranks) {
    std::vector<Tensor> sums, results;
    std::vector<Transfer> transfers;
    for (int i = 0; i < 5; ++i) {
      sums.push_back(values_of(ranks.rank() + i, {1000 * (i + 1)}, DType::float32));
      results.push_back(Tensor::empty(
          {Communicator::even_counts(1000 * (i + 1), ranks.size())[static_cast<std::size_t>(ranks.rank())]}));
      transfers.push_back(ranks.start_reduce_scatter(sums.back(), results.back()));
    }
    for (int i = 4; i >= 0; --i) {
      transfers[static_cast<std::size_t>(i)].done();
      transfers[static_cast<std::size_t>(i)].wait();
      transfers[static_cast<std::size_t>(i)].wait();  // once more does nothing
      const Tensor all = ranks.all_gather(results[static_cast<std::size_t>(i)],
                                          Communicator::even_counts(1000 * (i + 1), ranks.size()));
      std::vector<Tensor> terms;
      for (int rank = 0; rank < ranks.size(); ++rank) {
        terms.push_back(values_of(rank + i, {1000 * (i + 1)}, DType::float32));
      }
      EXPECT_EQ(all.to_vector(), reduced(terms, Reduce::sum));
    }
    EXPECT_TRUE(Transfer().done());
    Transfer().wait();
  });
}

TEST_P(Ranks, SplitByColorAndKey) {
  run_ranks(GetParam(), [](const Communicator& ranks) {
    const int size = ranks.size();
    const Communicator part = ranks.split(ranks.rank() % 2, -ranks.rank());  // the last rank comes first
    const int expected_size = ranks.rank() % 2 == 0 ? (size + 1) / 2 : size / 2;
    EXPECT_EQ(part.size(), expected_size);
    EXPECT_EQ(part.rank(), expected_size - 1 - ranks.rank() / 2);
    EXPECT_EQ(part.all_reduce(1.0), expected_size);
    const Communicator again = part.split(0);
    EXPECT_EQ(again.rank(), part.rank());
    const std::vector<std::string> names = ranks.all_gather(std::string(static_cast<std::size_t>(ranks.rank()), 'x'));
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_EQ(names[static_cast<std::size_t>(rank)].size(), static_cast<std::size_t>(rank));
    }
    ranks.barrier();
  });
}

TEST_P(Ranks, BytesSentFollowTheFormula) {
  run_ranks(GetParam(), [](const Communicator& ranks) {
    const int size = ranks.size();
    const std::int64_t rows = 840 * 16;  // every size up to 8 divides it
    const std::int64_t before = ranks.counts().bytes_sent;
    const Tensor share = ranks.reduce_scatter(Tensor::full({rows}, 1.0));
    EXPECT_EQ(ranks.counts().bytes_sent - before, rows / size * (size - 1) * 4);
    ranks.all_gather(share);
    EXPECT_EQ(ranks.counts().bytes_sent - before, 2 * rows / size * (size - 1) * 4);
    ranks.all_reduce(Tensor::full({rows}, 1.0));
    EXPECT_EQ(ranks.counts().bytes_sent - before, 4 * rows / size * (size - 1) * 4);
  });
}

// The order of a sum is that of the ranks, so that its bits are those of a loop over them.
TEST_P(Ranks, SumsAreTakenInTheOrderOfTheRanks) {
  const int size = GetParam();
  std::vector<float> expected(5000, 0.0F);
  for (int rank = 0; rank < size; ++rank) {
    const Tensor term = Tensor::randn({5000}, static_cast<std::uint64_t>(rank) + 100);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] = rank == 0 ? term.data<float>()[i] : expected[i] + term.data<float>()[i];
    }
  }
  run_ranks(size, [&](const Communicator& ranks) {
    const Tensor sum = Tensor::randn({5000}, static_cast<std::uint64_t>(ranks.rank()) + 100);
    ranks.all_reduce(sum);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), sum.data<float>()));
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, Ranks, testing::Values(1, 2, 3, 4, 8), testing::PrintToStringParamName());

TEST(Communicator, OneRankAloneNeedsNoEngine) {
  const Communicator alone;
  EXPECT_EQ(alone.size(), 1);
  EXPECT_EQ(alone.rank(), 0);
  EXPECT_TRUE(alone.is_alone());
  const Tensor x = Tensor::from({1.0F, 2.0F}, {2});
  alone.all_reduce(x);
  alone.broadcast(x);
  alone.barrier();
  EXPECT_EQ(x.to_vector(), (std::vector<double>{1, 2}));
  EXPECT_EQ(alone.reduce_scatter(x).to_vector(), x.to_vector());
  EXPECT_EQ(alone.all_gather(x).to_vector(), x.to_vector());
  EXPECT_EQ(alone.all_reduce(3.0), 3.0);
  EXPECT_EQ(alone.all_gather("a"), std::vector<std::string>{"a"});
  EXPECT_EQ(alone.split(3).size(), 1);
  alone.check_same("x", "y");
  alone.fail("nobody hears it");
}

TEST(Communicator, SixteenBitSumsAreRoundedOnce) {
  run_ranks(4, [](const Communicator& ranks) {
    // 256 + 1 is 256 in bfloat16: added one by one, all ones would be lost.
    const Tensor x = Tensor::full({10}, ranks.rank() == 0 ? 256.0 : 1.0, DType::bfloat16);
    ranks.all_reduce(x);
    EXPECT_EQ(x.at({0}), Tensor::full({1}, 259.0, DType::bfloat16).item());
  });
}

TEST(Communicator, TensorsOfADevice) {
  if (cuda_device_count() == 0) GTEST_SKIP() << describe_cuda();
  const Device device = Device::cuda();
  run_ranks(3, [&](const Communicator& ranks) {
    const Tensor x = values_of(ranks.rank(), {50, 3}, DType::float32).to(device);
    ranks.all_reduce(x);
    EXPECT_EQ(x.to(Device::cpu()).to_vector(), reduced(all_values(3, {50, 3}, DType::float32), Reduce::sum));
    const Tensor smallest = values_of(ranks.rank(), {5000}, DType::bfloat16).to(device);
    ranks.all_reduce(smallest, Reduce::min);
    EXPECT_EQ(smallest.to(Device::cpu()).to_vector(), reduced(all_values(3, {5000}, DType::bfloat16), Reduce::min));
  });
}

TEST(Communicator, ARankThatThrowsEndsAll) {
  const auto start = std::chrono::steady_clock::now();
  std::atomic<int> told = 0;
  const std::string message = message_of([&] {
    run_ranks(4, [&](const Communicator& ranks) {
      if (ranks.rank() == 2) throw Error("there is no third share");
      try {
        ranks.all_reduce(1.0);
      } catch (const Error& error) {
        told += std::string(error.what()) == "rank 2: there is no third share";
        throw;
      }
    });
  });
  EXPECT_EQ(message, "rank 2: there is no third share");
  EXPECT_EQ(told, 3);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(Communicator, AFailureReachesOtherGroups) {
  EXPECT_EQ(message_of([] {
              run_ranks(4, [](const Communicator& ranks) {
                const Communicator pair = ranks.split(ranks.rank() / 2);
                if (ranks.rank() == 3) throw Error("stop");
                ranks.barrier();
                pair.barrier();
              });
            }),
            "rank 3: stop");
}

TEST(Communicator, ARankThatEndsEarlyIsNamed) {
  EXPECT_EQ(message_of([] {
              run_ranks(2, [](const Communicator& ranks) {
                if (ranks.rank() == 0) ranks.barrier();
              });
            }),
            "rank 0: rank 1 ended while rank 0 still waits for it");
}

TEST(Communicator, OtherExceptionsStayThemselves) {
  EXPECT_THROW(run_ranks(2,
                         [](const Communicator& ranks) {
                           if (ranks.rank() == 1) throw std::bad_alloc();
                           ranks.barrier();
                         }),
               std::bad_alloc);
}

TEST(Communicator, SizesThatDifferAreTold) {
  const std::string message = message_of([] {
    run_ranks(2, [](const Communicator& ranks) {
      const Tensor x = Tensor::zeros({ranks.rank() + 2});
      ranks.exchange(x, 1 - ranks.rank(), x.clone(), 1 - ranks.rank());
    });
  });
  EXPECT_NE(message.find("bytes where its receiver expects"), std::string::npos) << message;
}

TEST(Communicator, CheckSameNamesRankAndDifference) {
  std::atomic<int> told = 0;
  EXPECT_THROW(run_ranks(3,
                         [&](const Communicator& ranks) {
                           const std::string message =
                               message_of([&] { ranks.check_same("the width", ranks.rank() == 1 ? "512" : "256"); });
                           told += message == "the width: rank 1 has 512, rank 0 256";
                           throw Error("done");
                         }),
               Error);
  EXPECT_EQ(told, 3);
}

TEST(Communicator, ADroppedTransferEndsTheOthers) {
  const std::string message = message_of([] {
    run_ranks(2, [](const Communicator& ranks) {
      if (ranks.rank() == 0) {
        ranks.start_broadcast(Tensor::zeros({8}), 0);  // nobody waits for it
        ranks.barrier();
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        ranks.barrier();
      }
    });
  });
  EXPECT_NE(message.find("it dropped messages that were not done"), std::string::npos) << message;
}

TEST(Communicator, WrongArguments) {
  const Communicator alone;
  const Tensor x = Tensor::zeros({4, 2});
  EXPECT_EQ(message_of([&] { Communicator::local(0); }), "Communicator::local: size is 0, expected 1 or more");
  EXPECT_EQ(message_of([&] { alone.broadcast(x, 1); }), "broadcast: root is 1, expected a rank of 0 to 0");
  EXPECT_EQ(message_of([&] { alone.broadcast(Tensor()); }), "broadcast: values is undefined");
  EXPECT_EQ(message_of([&] { alone.reduce_scatter(x, {3}); }),
            "reduce_scatter: counts add up to 3, expected the 4 rows of the tensor");
  EXPECT_EQ(message_of([&] {
              alone.reduce_scatter(x, {2, 2});
            }),
            "reduce_scatter: counts has 2 entries, expected one for each of 1 ranks");
  EXPECT_EQ(message_of([&] {
              alone.all_to_all({x, x}, {x});
            }),
            "all_to_all: 2 parts and 1 tensors to receive into, expected one of each for each of 1 ranks");
  EXPECT_EQ(message_of([&] { Communicator(std::shared_ptr<Transport>()); }), "Communicator: transport is null");
}

}  // namespace
}  // namespace headway
