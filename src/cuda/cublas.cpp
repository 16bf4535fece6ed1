#include "cuda/cublas.h"

#include <dlfcn.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {
namespace {

// ---- the part of cuBLASLt's interface that is used; the same in versions 12 and 13 ----

using Status = int;
constexpr Status kSuccess = 0, kInvalidValue = 7, kNotSupported = 15;

enum ComputeType : int { kCompute32 = 68, kCompute64 = 70 };
enum DescriptionAttribute : int {
  kTransposeA = 3,
  kTransposeB = 4,
  kEpilogue = 7,
  kBiasPointer = 8,
  kBeforePointer = 11,
  kBeforeLeading = 12
};
enum LayoutAttribute : int { kBatchCount = 5, kBatchOffset = 6 };
enum PreferenceAttribute : int {
  kMostWorkspace = 1,
  kReductionSchemes = 3,
  kAlignmentA = 5,
  kAlignmentB = 6,
  kAlignmentC = 7,
  kAlignmentD = 8
};
// All but the first combine.
enum Epilogue : std::uint32_t {
  kEpilogueNone = 1,
  kEpilogueRelu = 2,
  kEpilogueBias = 4,
  kEpilogueGelu = 32,
  kEpilogueBefore = 128
};
constexpr std::uint32_t kReducesInComputeType = 2;

struct Algorithm {
  std::uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  std::size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};

struct Library {
  Status (*create)(void** handle);
  const char* (*status_string)(Status status);
  Status (*description_create)(void** description, ComputeType compute, cudaDataType scale);
  Status (*description_destroy)(void* description);
  Status (*description_set)(void* description, DescriptionAttribute attribute, const void* value, std::size_t bytes);
  Status (*layout_create)(void** layout, cudaDataType type, std::uint64_t rows, std::uint64_t columns,
                          std::int64_t leading);
  Status (*layout_destroy)(void* layout);
  Status (*layout_set)(void* layout, LayoutAttribute attribute, const void* value, std::size_t bytes);
  Status (*preference_create)(void** preference);
  Status (*preference_destroy)(void* preference);
  Status (*preference_set)(void* preference, PreferenceAttribute attribute, const void* value, std::size_t bytes);
  Status (*find)(void* handle, void* description, void* a, void* b, void* c, void* d, void* preference, int wanted,
                 Heuristic* results, int* found);
  Status (*matmul)(void* handle, void* description, const void* alpha, const void* a, void* a_layout, const void* b,
                   void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                   const Algorithm* algorithm, void* workspace, std::size_t workspace_bytes, cudaStream_t stream);
};

void* open_library() {
  constexpr const char* kNames[] = {"libcublasLt.so.13",
                                    "libcublasLt.so.12",
                                    "libcublasLt.so",
                                    "/usr/local/cuda/lib64/libcublasLt.so.13",
                                    "/usr/local/cuda/lib64/libcublasLt.so.12",
                                    "/usr/local/cuda/lib64/libcublasLt.so"};
  std::string reason;
  for (const char* name : kNames) {
    if (void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL)) return library;
    if (reason.empty()) reason = dlerror();
  }
  fail("cuda: libcublasLt.so.13 cannot be opened: ", reason);
}

template <typename Function>
void resolve(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  check(function != nullptr, "cuda: libcublasLt has no function ", name);
}

Library load_library() {
  void* opened = open_library();
  Library library;
  resolve(opened, "cublasLtCreate", library.create);
  resolve(opened, "cublasLtGetStatusString", library.status_string);
  resolve(opened, "cublasLtMatmulDescCreate", library.description_create);
  resolve(opened, "cublasLtMatmulDescDestroy", library.description_destroy);
  resolve(opened, "cublasLtMatmulDescSetAttribute", library.description_set);
  resolve(opened, "cublasLtMatrixLayoutCreate", library.layout_create);
  resolve(opened, "cublasLtMatrixLayoutDestroy", library.layout_destroy);
  resolve(opened, "cublasLtMatrixLayoutSetAttribute", library.layout_set);
  resolve(opened, "cublasLtMatmulPreferenceCreate", library.preference_create);
  resolve(opened, "cublasLtMatmulPreferenceDestroy", library.preference_destroy);
  resolve(opened, "cublasLtMatmulPreferenceSetAttribute", library.preference_set);
  resolve(opened, "cublasLtMatmulAlgoGetHeuristic", library.find);
  resolve(opened, "cublasLtMatmul", library.matmul);
  return library;
}

// The library, opened once for as long as the process lives.
const Library& library() {
  static const Library loaded = load_library();
  return loaded;
}

void check_status(Status status, const char* call) {
  if (status != kSuccess) fail("cuda: ", call, ": ", library().status_string(status));
}

// ---- its objects ----

// What one of the library's create functions made.
class Made {
 public:
  template <typename... Arguments>
  Made(Status (*destroy)(void*), Status (*create)(void**, Arguments...), std::type_identity_t<Arguments>... arguments)
      : destroy_(destroy) {
    check_status(create(&object_, arguments...), "cublasLt object");
  }
  ~Made() { destroy_(object_); }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  void* get() const { return object_; }

 private:
  void* object_ = nullptr;
  Status (*destroy_)(void*);
};

template <typename Attribute, typename Value>
void set(Status (*setter)(void*, Attribute, const void*, std::size_t), const Made& object, Attribute attribute,
         const Value& value) {
  check_status(setter(object.get(), attribute, &value, sizeof(value)), "cublasLt attribute");
}

cudaDataType data_type(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return CUDA_R_64F;
    case DType::bfloat16:
      return CUDA_R_16BF;
    case DType::float16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

// The power of two, 16 at most, of which an address is a multiple: all that algorithms ask for.
std::uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | 16;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

std::uint32_t epilogue_of(const LtProduct& p) {
  const std::uint32_t parts = (p.relu ? kEpilogueRelu : 0u) | (p.bias ? kEpilogueBias : 0u) |
                              (p.gelu_tanh ? kEpilogueGelu : 0u) | (p.before ? kEpilogueBefore : 0u);
  return parts == 0 ? kEpilogueNone : parts;
}

// A layout of matrices (rows, columns), stored by rows where they are transposed.
class Layout {
 public:
  Layout(const LtProduct& p, DType dtype, std::int64_t rows, std::int64_t columns, const LtMatrix& matrix)
      : made_(library().layout_destroy, library().layout_create, data_type(dtype),
              static_cast<std::uint64_t>(matrix.transposed ? columns : rows),
              static_cast<std::uint64_t>(matrix.transposed ? rows : columns), matrix.leading) {
    if (p.batch == 1) return;
    set(library().layout_set, made_, kBatchCount, static_cast<std::int32_t>(p.batch));
    set(library().layout_set, made_, kBatchOffset, matrix.batch_stride);
  }
  void* get() const { return made_.get(); }

 private:
  Made made_;
};

// A product in the library's words, but for its memory.
struct Description {
  Made operation;
  Layout left, right, result;

  explicit Description(const LtProduct& p)
      : operation(library().description_destroy, library().description_create,
                  p.dtype == DType::float64 ? kCompute64 : kCompute32,
                  p.dtype == DType::float64 ? CUDA_R_64F : CUDA_R_32F),
        left(p, p.dtype, p.m, p.k, p.left),
        right(p, p.dtype, p.k, p.n, p.right),
        result(p, p.result_dtype, p.m, p.n, {p.result, p.result_leading, p.result_batch_stride, false}) {
    set(library().description_set, operation, kTransposeA, static_cast<std::int32_t>(p.left.transposed));
    set(library().description_set, operation, kTransposeB, static_cast<std::int32_t>(p.right.transposed));
    set(library().description_set, operation, kEpilogue, epilogue_of(p));
    if (p.before) set(library().description_set, operation, kBeforeLeading, p.before_leading);
    set_memory(p);
  }

  // What the epilogue reads and writes.
  void set_memory(const LtProduct& p) {
    if (p.bias) set(library().description_set, operation, kBiasPointer, p.bias);
    if (p.before) set(library().description_set, operation, kBeforePointer, p.before);
  }
};

// ---- which algorithm ----

int current_device() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

// The current GPU's handle; all threads may use it at once.
void* handle_of(int device) {
  static std::mutex mutex;
  static std::map<int, void*> handles;
  const std::lock_guard lock(mutex);
  void*& handle = handles[device];
  if (!handle) check_status(library().create(&handle), "cublasLtCreate");
  return handle;
}

std::optional<Heuristic> ask_for_algorithm(void* handle, const Description& description, const LtProduct& p) {
  constexpr std::uint64_t kWorkspaceBytes = std::uint64_t{32} << 20;
  const Made preference(library().preference_destroy, library().preference_create);
  const auto& setter = library().preference_set;
  set(setter, preference, kMostWorkspace, kWorkspaceBytes);
  set(setter, preference, kReductionSchemes, kReducesInComputeType);  // never sums of 16 bits
  set(setter, preference, kAlignmentA, alignment_of(p.left.data));
  set(setter, preference, kAlignmentB, alignment_of(p.right.data));
  set(setter, preference, kAlignmentC, alignment_of(p.result));
  set(setter, preference, kAlignmentD, alignment_of(p.result));
  Heuristic heuristic = {};
  int found = 0;
  void* result = description.result.get();
  const Status status =
      library().find(handle, description.operation.get(), description.left.get(), description.right.get(), result,
                     result, preference.get(), 1, &heuristic, &found);
  if (status == kNotSupported || status == kInvalidValue) return std::nullopt;
  check_status(status, "cublasLtMatmulAlgoGetHeuristic");
  if (found == 0 || heuristic.state != kSuccess) return std::nullopt;
  return heuristic;
}

// All that the choice of an algorithm follows from.
using Key = std::array<std::int64_t, 23>;
Key key_of(int device, const LtProduct& p) {
  return {device,
          static_cast<std::int64_t>(p.dtype),
          static_cast<std::int64_t>(p.result_dtype),
          p.m,
          p.n,
          p.k,
          p.batch,
          p.left.transposed,
          p.left.leading,
          p.left.batch_stride,
          alignment_of(p.left.data),
          p.right.transposed,
          p.right.leading,
          p.right.batch_stride,
          alignment_of(p.right.data),
          p.result_leading,
          p.result_batch_stride,
          alignment_of(p.result),
          epilogue_of(p),
          p.bias ? alignment_of(p.bias) : 0,
          p.before ? alignment_of(p.before) : 0,
          p.before_leading,
          p.accumulate};
}

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t hash = 0;
    for (const std::int64_t part : key) {
      hash = (hash ^ static_cast<std::uint64_t>(part)) * 0x9E3779B97F4A7C15;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

// A product that a thread has met before: its description, and the algorithm, none where the library has none.
struct Plan {
  Description description;
  std::optional<Heuristic> chosen;

  Plan(void* handle, const LtProduct& p) : description(p), chosen(ask_for_algorithm(handle, description, p)) {}
};

// The thread's plan for a product, made once.
Plan& plan_of(int device, void* handle, const LtProduct& p) {
  constexpr std::size_t kMostKept = 1 << 12;
  thread_local std::unordered_map<Key, std::unique_ptr<Plan>, KeyHash> kept;
  std::unique_ptr<Plan>* place = &kept[key_of(device, p)];
  if (!*place) {
    if (kept.size() > kMostKept) {
      kept.clear();
      place = &kept[key_of(device, p)];
    }
    *place = std::make_unique<Plan>(handle, p);
  }
  return **place;
}

}  // namespace

bool lt_product(const LtProduct& product) {
  const int device = current_device();
  void* handle = handle_of(device);
  Plan& plan = plan_of(device, handle, product);
  if (!plan.chosen) return false;
  plan.description.set_memory(product);
  const DeviceBuffer workspace(plan.chosen->workspace_bytes);
  const double alpha64 = 1, beta64 = product.accumulate ? 1 : 0;
  const float alpha32 = 1, beta32 = product.accumulate ? 1 : 0;
  const bool is64 = product.dtype == DType::float64;
  const void* alpha = is64 ? static_cast<const void*>(&alpha64) : &alpha32;
  const void* beta = is64 ? static_cast<const void*>(&beta64) : &beta32;
  const Description& description = plan.description;
  void* layout = description.result.get();
  check_status(library().matmul(handle, description.operation.get(), alpha, product.left.data, description.left.get(),
                                product.right.data, description.right.get(), beta, product.result, layout,
                                product.result, layout, &plan.chosen->algorithm, workspace.as<void>(),
                                plan.chosen->workspace_bytes, current_stream()),
               "cublasLtMatmul");
  return true;
}

}  // namespace headway::inline v0::internal::cuda
