#include "cuda/nccl.h"

#include <dlfcn.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "cuda/backend.h"
#include "cuda/launch.h"
#include "cuda/recording.h"

namespace headway::inline v0::internal::cuda {
namespace {

// ---- the part of NCCL's interface that is used; the same in all versions 2 ----

using NcclStatus = int;
constexpr NcclStatus kNcclSuccess = 0, kNcclInProgress = 7;
constexpr int kNcclUint8 = 1;
constexpr std::size_t kNcclIdBytes = 128;

struct NcclId {
  char bytes[kNcclIdBytes];
};
using NcclComm = struct NcclCommunicator*;

struct Nccl {
  NcclStatus (*version)(int* version);
  NcclStatus (*unique_id)(NcclId* id);
  NcclStatus (*init_rank)(NcclComm* comm, int size, NcclId id, int rank);
  NcclStatus (*split)(NcclComm comm, int color, int key, NcclComm* part, void* config);  // null before 2.18
  NcclStatus (*destroy)(NcclComm comm);
  NcclStatus (*abort)(NcclComm comm);
  NcclStatus (*async_error)(NcclComm comm, NcclStatus* status);
  const char* (*error_string)(NcclStatus status);
  const char* (*last_error)(NcclComm comm);  // null before 2.13
  NcclStatus (*rank)(NcclComm comm, int* rank);
  NcclStatus (*size)(NcclComm comm, int* size);
  NcclStatus (*send)(const void* data, std::size_t count, int type, int to, NcclComm comm, cudaStream_t stream);
  NcclStatus (*receive)(void* data, std::size_t count, int type, int from, NcclComm comm, cudaStream_t stream);
  NcclStatus (*group_start)();
  NcclStatus (*group_end)();
};

// HEADWAY_NCCL_LIBRARY, or the system's search path.
void* open_nccl_library() {
  const char* named = std::getenv("HEADWAY_NCCL_LIBRARY");
  const char* name = named != nullptr && *named != '\0' ? named : "libnccl.so.2";
  if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  const char* why = dlerror();
  fail("NCCL: ", why != nullptr ? why : name, "; it is part of PyTorch's packages and of NVIDIA's (libnccl2)");
}

template <typename Function>
void find_in_nccl(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
}

Nccl load_nccl() {
  void* opened = open_nccl_library();
  Nccl nccl = {};
  const auto need = [&](const char* name, auto*& function) {
    find_in_nccl(opened, name, function);
    check(function != nullptr, "NCCL: libnccl.so.2 has no function ", name);
  };
  need("ncclGetVersion", nccl.version);
  need("ncclGetUniqueId", nccl.unique_id);
  need("ncclCommInitRank", nccl.init_rank);
  need("ncclCommDestroy", nccl.destroy);
  need("ncclCommAbort", nccl.abort);
  need("ncclCommGetAsyncError", nccl.async_error);
  need("ncclGetErrorString", nccl.error_string);
  need("ncclCommUserRank", nccl.rank);
  need("ncclCommCount", nccl.size);
  need("ncclSend", nccl.send);
  need("ncclRecv", nccl.receive);
  need("ncclGroupStart", nccl.group_start);
  need("ncclGroupEnd", nccl.group_end);
  find_in_nccl(opened, "ncclCommSplit", nccl.split);
  find_in_nccl(opened, "ncclGetLastError", nccl.last_error);
  return nccl;
}

// The library, opened once for as long as the process lives.
const Nccl& nccl() {
  static const Nccl loaded = load_nccl();
  return loaded;
}

std::string nccl_problem(NcclStatus status, const char* call) {
  std::string text = std::string("NCCL: ") + call + ": " + nccl().error_string(status);
  const char* more = nccl().last_error != nullptr ? nccl().last_error(nullptr) : nullptr;
  if (more != nullptr && *more != '\0') text += std::string(": ") + more;
  return text;
}

void check_nccl(NcclStatus status, const char* call) {
  if (status != kNcclSuccess) fail(nccl_problem(status, call));
}

// ---- ranks that have joined ----

// NCCL's communicator with its stream. A thread looks now and then whether other ranks have gone: then the communicator
// is aborted, which ends what waits on the GPU for them.
class Joined {
 public:
  Joined(int device, NcclComm comm) : device_(device), comm_(comm) {
    check_nccl(nccl().rank(comm_, &rank_), "ncclCommUserRank");
    check_nccl(nccl().size(comm_, &size_), "ncclCommCount");
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    if (size_ > 1) watch_ = std::thread([this] { watch(); });
  }
  ~Joined() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    if (watch_.joinable()) watch_.join();
    int current = 0;
    if (cudaGetDevice(&current) != cudaSuccess) return;  // the process is ending, and CUDA has gone
    cudaSetDevice(device_);
    if (!aborted_) nccl().destroy(comm_);
    cudaStreamDestroy(stream_);
    cudaSetDevice(current);
  }
  Joined(const Joined&) = delete;
  Joined& operator=(const Joined&) = delete;

  int device() const { return device_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  NcclComm comm() const { return comm_; }
  cudaStream_t stream() const { return stream_; }

  // Throws where a rank has failed.
  void check_failure() {
    const std::lock_guard lock(mutex_);
    look();
    if (!failure_.empty()) fail("rank ", rank_, ": ", failure_);
  }

  void abort(const std::string& why) {
    const std::lock_guard lock(mutex_);
    abort_for(why);
  }

 private:
  // The mutex is held by those that follow.
  void abort_for(const std::string& why) {
    if (std::exchange(aborted_, true)) return;
    failure_ = why;
    nccl().abort(comm_);
  }

  void look() {
    if (aborted_) return;
    NcclStatus status = kNcclSuccess;
    const NcclStatus asked = nccl().async_error(comm_, &status);
    if (asked != kNcclSuccess) status = asked;
    if (status != kNcclSuccess && status != kNcclInProgress) abort_for(nccl_problem(status, "messages"));
  }

  void watch() {
    constexpr std::chrono::milliseconds kPeriod{200};
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, kPeriod, [this] { return stop_; })) look();
  }

  int device_;
  NcclComm comm_;
  int rank_ = 0;
  int size_ = 1;
  cudaStream_t stream_ = nullptr;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool aborted_ = false;
  std::string failure_;
  bool stop_ = false;
  std::thread watch_;
};

// An event that is recorded on one stream and waited for on another.
class Mark {
 public:
  Mark() { check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate"); }
  ~Mark() { cudaEventDestroy(event_); }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

  void record(cudaStream_t stream) { check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  void hold(cudaStream_t stream) const { check_cuda(cudaStreamWaitEvent(stream, event_), "cudaStreamWaitEvent"); }
  cudaEvent_t event() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class NcclMessages final : public Transport::Messages {
 public:
  NcclMessages(std::shared_ptr<Joined> joined, const std::vector<Transport::Outgoing>& outgoing,
               const std::vector<Transport::Incoming>& incoming)
      : joined_(std::move(joined)) {
    const cudaStream_t stream = joined_->stream();
    before_.record(current_stream());
    before_.hold(stream);
    check_nccl(nccl().group_start(), "ncclGroupStart");
    NcclStatus first = kNcclSuccess;
    const auto note = [&](NcclStatus status) { first = first == kNcclSuccess ? status : first; };
    for (const Transport::Outgoing& message : outgoing) {
      note(nccl().send(message.data, message.bytes, kNcclUint8, message.to, joined_->comm(), stream));
    }
    for (const Transport::Incoming& message : incoming) {
      note(nccl().receive(message.data, message.bytes, kNcclUint8, message.from, joined_->comm(), stream));
    }
    note(nccl().group_end());  // also where one was refused
    check_nccl(first, "ncclSend and ncclRecv");
    done_.record(stream);
  }
  // They go on by themselves: what this thread does with their memory from now on comes after them.
  ~NcclMessages() override {
    try {
      const CudaBackend::OnGpu here(joined_->device());
      done_.hold(current_stream());
    } catch (...) {
    }
  }

  bool done() override {
    const CudaBackend::OnGpu here(joined_->device());
    const cudaError_t state = cudaEventQuery(done_.event());
    joined_->check_failure();
    if (state == cudaErrorNotReady) {
      cudaGetLastError();
      return false;
    }
    check_cuda(state, "cudaEventQuery");
    return true;
  }

  void wait() override {
    const CudaBackend::OnGpu here(joined_->device());
    joined_->check_failure();
    done_.hold(current_stream());
  }

 private:
  std::shared_ptr<Joined> joined_;
  Mark before_, done_;
};

class NcclTransport final : public Transport {
 public:
  explicit NcclTransport(std::shared_ptr<Joined> joined) : joined_(std::move(joined)) {}

  std::string description() const override {
    int version = 0;
    check_nccl(nccl().version(&version), "ncclGetVersion");
    return "NCCL " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100);
  }
  int rank() const override { return joined_->rank(); }
  int size() const override { return joined_->size(); }
  bool moves(Device wanted) const override { return wanted == device(); }
  Device device() const override { return {.kind = Device::Kind::cuda, .index = joined_->device()}; }

  std::unique_ptr<Messages> start(const std::vector<Outgoing>& outgoing, const std::vector<Incoming>& incoming,
                                  Device wanted) override {
    check(moves(wanted), "NCCL: messages lie in the memory of ", wanted, ", expected ", device());
    refuse_while_recording("messages between ranks are started");
    joined_->check_failure();
    const CudaBackend::OnGpu here(joined_->device());
    return std::make_unique<NcclMessages>(joined_, outgoing, incoming);
  }

  std::shared_ptr<Transport> split(int color, int key) override {
    check(nccl().split != nullptr, "NCCL: split() needs version 2.18, this is ", description());
    check(color >= 0, "split: color is ", color, ", expected 0 or more with NCCL");
    joined_->check_failure();
    const CudaBackend::OnGpu here(joined_->device());
    NcclComm part = nullptr;
    check_nccl(nccl().split(joined_->comm(), color, key, &part, nullptr), "ncclCommSplit");
    return std::make_shared<NcclTransport>(std::make_shared<Joined>(joined_->device(), part));
  }

  void fail(const std::string& why) noexcept override {
    try {
      joined_->abort(why);
    } catch (...) {
    }
  }

 private:
  std::shared_ptr<Joined> joined_;
};

}  // namespace

std::string new_nccl_id() {
  NcclId id;
  check_nccl(nccl().unique_id(&id), "ncclGetUniqueId");
  return {id.bytes, kNcclIdBytes};
}

std::shared_ptr<Transport> open_nccl(int device, const std::string& id, int rank, int size) {
  check(id.size() == kNcclIdBytes, "NCCL: the identification has ", id.size(), " bytes, expected ", kNcclIdBytes);
  check(size >= 1 && rank >= 0 && rank < size, "NCCL: this is rank ", rank, " of ", size);
  NcclId bytes;
  std::memcpy(bytes.bytes, id.data(), kNcclIdBytes);
  NcclComm comm = nullptr;
  check_nccl(nccl().init_rank(&comm, size, bytes, rank), "ncclCommInitRank");
  return std::make_shared<NcclTransport>(std::make_shared<Joined>(device, comm));
}

std::string CudaBackend::new_nccl_id() {
  const OnGpu here = on_gpu();
  return cuda::new_nccl_id();
}

std::shared_ptr<Transport> CudaBackend::open_nccl(const std::string& id, int rank, int size) {
  const OnGpu here = on_gpu();
  return cuda::open_nccl(index_, id, rank, size);
}

}  // namespace headway::inline v0::internal::cuda
