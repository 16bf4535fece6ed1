// One rank of the tests of MPI: `mpi_ranks WHAT` does one thing and prints "rank R: good", or fails in one way.
#include <dlfcn.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <thread>

#include "base/mpi_library.h"
#include "headway/communicator.h"
#include "headway/error.h"
#include "headway/ops.h"

namespace {

using namespace headway;

constexpr DType kDTypes[] = {DType::float32, DType::float64, DType::bfloat16, DType::float16,
                             DType::int32,   DType::int64,   DType::boolean,  DType::int8};

void expect(bool holds, const std::string& what) {
  if (!holds) throw Error("wrong: " + what);
}

void expect_equal(const Tensor& a, const std::vector<double>& b, const std::string& what) {
  expect(a.to_vector() == b, what + " of " + a.describe());
}

// What rank `rank` brings: whole numbers that are exact in every dtype.
Tensor values_of(int rank, std::int64_t rows, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(rows * 3));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = static_cast<double>((i * 7 + static_cast<std::size_t>(rank) * 3) % 8);
    values[i] = dtype == DType::boolean ? value > 3 : value;
  }
  return Tensor::from(values, {rows, 3}).to(dtype);
}

std::vector<double> reduced(int size, std::int64_t rows, DType dtype, Reduce how) {
  std::vector<double> all = values_of(0, rows, dtype).to_vector();
  for (int rank = 1; rank < size; ++rank) {
    const std::vector<double> more = values_of(rank, rows, dtype).to_vector();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (how == Reduce::sum) all[i] += more[i];
      if (how == Reduce::max) all[i] = std::max(all[i], more[i]);
      if (how == Reduce::min) all[i] = std::min(all[i], more[i]);
      if (dtype == DType::boolean) all[i] = all[i] != 0;
    }
  }
  return all;
}

// ---- all operations ----

void reduce_and_gather(const Communicator& ranks, DType dtype, std::int64_t rows) {
  const int size = ranks.size(), rank = ranks.rank();
  for (const Reduce how : {Reduce::sum, Reduce::max, Reduce::min}) {
    const Tensor own = values_of(rank, rows, dtype);
    ranks.all_reduce(own, how);
    expect_equal(own, reduced(size, rows, dtype, how), "all_reduce");
  }
  const Tensor share = ranks.reduce_scatter(values_of(rank, rows, dtype));
  expect_equal(ranks.all_gather(share, Communicator::even_counts(rows, size)), reduced(size, rows, dtype, Reduce::sum),
               "reduce_scatter and all_gather");
  std::vector<std::int64_t> uneven(static_cast<std::size_t>(size), 0);
  uneven.back() = rows;
  expect_equal(ranks.all_gather(ranks.reduce_scatter(values_of(rank, rows, dtype), uneven), uneven),
               reduced(size, rows, dtype, Reduce::sum), "uneven counts");
  for (int root = 0; root < size; ++root) {
    const Tensor own = values_of(rank, rows, dtype);
    ranks.broadcast(own, root);
    expect_equal(own, values_of(root, rows, dtype).to_vector(), "broadcast");
  }
}

void send_around(const Communicator& ranks, DType dtype, std::int64_t rows) {
  const int size = ranks.size(), rank = ranks.rank();
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  const Tensor received = Tensor::zeros({rows, 3}, dtype);
  ranks.exchange(values_of(rank, rows, dtype), next, received, before);
  expect_equal(received, values_of(before, rows, dtype).to_vector(), "exchange");
  std::vector<Tensor> parts, arrived;
  for (int other = 0; other < size; ++other) {
    parts.push_back(values_of(rank, (other + rank) % 3 * rows, dtype));
    arrived.push_back(Tensor::zeros({(other + rank) % 3 * rows, 3}, dtype));
  }
  ranks.all_to_all(parts, arrived);
  for (int other = 0; other < size; ++other) {
    expect_equal(arrived[static_cast<std::size_t>(other)],
                 values_of(other, (other + rank) % 3 * rows, dtype).to_vector(), "all_to_all");
  }
}

// Several at a time, waited for in another order, while this rank computes.
void overlap(const Communicator& ranks) {
  const int size = ranks.size(), rank = ranks.rank();
  std::vector<Tensor> sums, received;
  std::vector<Transfer> transfers;
  for (const std::int64_t rows : {1, 5, 400, 40000, 300000}) {
    sums.push_back(values_of(rank, rows, DType::float32));
    transfers.push_back(ranks.start_all_reduce(sums.back()));
    received.push_back(Tensor::zeros({rows, 3}));
    transfers.push_back(ranks.start_messages({{values_of(rank, rows, DType::float32), (rank + 1) % size}},
                                             {{received.back(), (rank + size - 1) % size}}));
  }
  matmul(Tensor::full({300, 300}, 1), Tensor::full({300, 300}, 1));
  for (std::size_t i = transfers.size(); i-- > 0;) transfers[i].wait();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    expect_equal(sums[i], reduced(size, sums[i].size(0), DType::float32, Reduce::sum), "started all_reduce");
    expect_equal(received[i], values_of((rank + size - 1) % size, sums[i].size(0), DType::float32).to_vector(),
                 "started messages");
  }
}

void split(const Communicator& ranks) {
  const int rank = ranks.rank(), size = ranks.size();
  const Communicator part = ranks.split(rank % 2 == 0 ? -5 : 7, -rank);  // the last rank first
  const int expected_size = size / 2 + (rank % 2 == 0 ? size % 2 : 0);
  expect(part.size() == expected_size && part.rank() == expected_size - 1 - rank / 2, "the ranks of a part");
  send_around(part, DType::float32, 50);
  const Communicator pair = part.split(0, part.rank()), again = ranks.split(0);
  const Tensor mine = Tensor::full({2000}, rank), sum = Tensor::full({2000}, 1), all = Tensor::full({2000}, 2);
  const Transfer first = ranks.start_all_reduce(mine), second = pair.start_all_reduce(sum),
                 third = again.start_all_reduce(all);
  third.wait();
  second.wait();
  first.wait();
  expect_equal(mine, std::vector<double>(2000, size * (size - 1) / 2), "a sum of all beside one of a part");
  expect_equal(sum, std::vector<double>(2000, expected_size), "a sum of a part");
  expect_equal(all, std::vector<double>(2000, 2 * size), "a sum of all in another order");
}

void operations(const Communicator& ranks) {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t rows : {0, 1, 7, 3000}) {
      reduce_and_gather(ranks, dtype, rows);
      send_around(ranks, dtype, rows);
    }
  }
  overlap(ranks);
  split(ranks);
  ranks.barrier();
  expect(ranks.all_reduce(static_cast<double>(ranks.rank()), Reduce::max) == ranks.size() - 1, "a number of the host");
  const std::vector<std::string> texts = ranks.all_gather(std::string(static_cast<std::size_t>(ranks.rank()), 'x'));
  expect(texts.back().size() == static_cast<std::size_t>(ranks.size() - 1), "texts");
  ranks.check_same("a text", "the same");
  if (ranks.size() == 1) return;
  try {
    ranks.check_same("a text", ranks.rank() == 1 ? "B" : "A");
    expect(false, "different texts");
  } catch (const Error& error) {
    expect(std::string(error.what()) == "a text: rank 1 has B, rank 0 A", error.what());
  }
}

// ---- ends ----

// Waits for a rank that has another fate.
void wait_for(const Communicator& ranks, int rank) { ranks.start_messages({}, {{Tensor::zeros({4}), rank}}).wait(); }

void exchange_sizes(const Communicator& ranks, std::int64_t sent, std::int64_t expected) {
  if (ranks.rank() == 0) ranks.start_messages({{Tensor::zeros({sent}), 1}}, {}).wait();
  if (ranks.rank() == 1) ranks.start_messages({}, {{Tensor::zeros({expected}), 0}}).wait();
  ranks.barrier();
}

void throw_text(const Communicator& ranks) {
  if (ranks.rank() == 1) throw Error("the disk is full");
  wait_for(ranks, 1);
}

// The engine by itself, as ranks of another version would open it.
void open_other_build() {
  void* library = dlopen(std::getenv("HEADWAY_MPI_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  expect(library != nullptr, "HEADWAY_MPI_LIBRARY is not set");
  const auto open = reinterpret_cast<internal::MpiOpen>(dlsym(library, internal::kMpiOpenName));
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const std::string build = rank != nullptr && *rank == '1' ? "0.3.0" : "0.2.0";
  const internal::MpiHost host = {.build = build.c_str(), .synchronize = [](Device) {}};
  std::shared_ptr<Transport> transport;
  open(&host, &transport);
}

using Work = std::function<void(const Communicator&)>;

const std::map<std::string, Work>& all_work() {
  static const std::map<std::string, Work> all = {
      {"operations", operations},
      {"throw", throw_text},
      {"throw-late",  // while the others compute, and look at nothing
       [](const Communicator& ranks) {
         if (ranks.rank() == 1) throw Error("the disk is full");
         std::this_thread::sleep_for(std::chrono::seconds(1));
         ranks.barrier();
       }},
      {"kill",
       [](const Communicator& ranks) {
         if (ranks.rank() == 1) std::raise(SIGKILL);
         wait_for(ranks, 1);
       }},
      {"exit",
       [](const Communicator& ranks) {
         if (ranks.rank() == 1) std::exit(0);
         wait_for(ranks, 1);
       }},
      {"exit-code",
       [](const Communicator& ranks) {
         if (ranks.rank() == 1) std::exit(3);
         wait_for(ranks, 1);
       }},
      {"end-early",  // nobody waits for it
       [](const Communicator& ranks) {
         if (ranks.rank() == 1) return;
         std::this_thread::sleep_for(std::chrono::milliseconds(1500));
       }},
      {"never-look",  // a rank that has failed does not wait for ever for one that never looks
       [](const Communicator& ranks) {
         if (ranks.rank() == 1) throw Error("the disk is full");
         std::this_thread::sleep_for(std::chrono::seconds(60));
       }},
      {"long-for-short", [](const Communicator& ranks) { exchange_sizes(ranks, 100000, 4); }},
      {"short-for-long", [](const Communicator& ranks) { exchange_sizes(ranks, 4, 100000); }},
      {"longer", [](const Communicator& ranks) { exchange_sizes(ranks, 100001, 100000); }},
      {"drop",
       [](const Communicator& ranks) {
         if (ranks.rank() == 1) {
           { const Transfer dropped = ranks.start_messages({}, {{Tensor::zeros({4}), 0}}); }
           std::this_thread::sleep_for(std::chrono::seconds(20));
         }
         wait_for(ranks, 1);
       }},
      {"drop-and-catch",  // an exception of which nobody tells
       [](const Communicator& ranks) {
         if (ranks.rank() == 1) {
           try {
             const Transfer dropped = ranks.start_messages({}, {{Tensor::zeros({4}), 0}});
             throw Error("caught");
           } catch (const Error&) {
           }
           std::this_thread::sleep_for(std::chrono::seconds(20));
         }
         wait_for(ranks, 1);
       }},
      {"fail",
       [](const Communicator& ranks) {
         if (ranks.rank() == 1) ranks.fail("no more");
         std::this_thread::sleep_for(std::chrono::milliseconds(100));
         ranks.barrier();
       }},
  };
  return all;
}

}  // namespace

// `mpi_ranks caught WHAT` is a program that catches what is thrown, as most do.
int main(int count, char** arguments) {
  const std::string first = count > 1 ? arguments[1] : "";
  const bool catches = first == "caught";
  const std::string what = catches && count > 2 ? arguments[2] : first;
  if (what == "world") {
    const Communicator ranks = Communicator::world();
    std::cout << ranks.description() << ", " << ranks.size() << " ranks" << std::endl;
    return 0;
  }
  if (what == "builds") {
    open_other_build();
    return 0;
  }
  const auto run = [&] {
    const Communicator ranks = Communicator::mpi();
    all_work().at(what)(ranks);
    std::cout << "rank " + std::to_string(ranks.rank()) + " of " + std::to_string(ranks.size()) + ": good\n"
              << std::flush;
  };
  if (!catches) {
    run();
    return 0;
  }
  try {
    run();
  } catch (const std::exception& error) {
    std::cerr << std::string("ranks: ") + error.what() + "\n" << std::flush;
    return 1;
  }
}
