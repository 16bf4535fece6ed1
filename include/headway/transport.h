// What moves bytes between ranks: MPI, NCCL, the threads of one process, or an engine of one's own.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "headway/device.h"
#include "headway/export.h"

namespace headway {
inline namespace v0 {

// The one primitive under every operation of a Communicator: messages from rank to rank. Derive from it to let
// Headway use another engine. One thread at a time uses a transport.
class HEADWAY_API Transport {
 public:
  struct Outgoing {
    int to = 0;
    const void* data = nullptr;
    std::size_t bytes = 0;
  };
  struct Incoming {
    int from = 0;
    void* data = nullptr;
    std::size_t bytes = 0;
  };

  // Messages that were started. Their memory belongs to them until they are done.
  class HEADWAY_API Messages {
   public:
    // Where they are not done, the other ranks' calls that wait for them end with an Error.
    virtual ~Messages();
    // Whether all have been sent and have arrived; gives the engine a chance to go on with them. Throws where a rank
    // has failed.
    virtual bool done() = 0;
    // Returns when all are done; on a GPU, when what this thread enqueues from now on runs after them. Throws an Error
    // that names the rank where one has failed.
    virtual void wait() = 0;
  };

  virtual ~Transport();

  // "MPI (Open MPI 4.1.4)", "NCCL 2.27", "local"
  virtual std::string description() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Whether messages may lie in this device's memory. Tensors elsewhere go through the memory of device().
  virtual bool moves(Device device) const = 0;
  virtual Device device() const { return Device::cpu(); }

  // Sends and receives at the same time, and returns at once. Messages from one rank to another arrive in the order in
  // which they were started; none goes to the rank itself, and none is empty. A message whose size the receiver did not
  // expect is an error.
  virtual std::unique_ptr<Messages> start(const std::vector<Outgoing>& outgoing, const std::vector<Incoming>& incoming,
                                          Device device) = 0;
  // Every rank calls it. The ranks of one color form a transport of their own, ordered by key, then by rank.
  virtual std::shared_ptr<Transport> split(int color, int key) = 0;
  // Tells all other ranks that this one has failed and why: what they wait for, now or later, throws. Never throws.
  virtual void fail(const std::string& why) noexcept = 0;
};

}  // namespace v0
}  // namespace headway
