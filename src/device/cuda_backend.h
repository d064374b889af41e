// The part of the CUDA backend that does not need CUDA's headers: the entry points of the backend, and helpers that
// tests run without a GPU.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "carillon/device/device.h"

namespace carillon {

/// The GPUs that this process can use.
struct CudaGpus {
  std::vector<int> ordinals;  ///< CUDA's numbers, in ascending order; the numbers may have gaps, because GPUs that are
                              ///< too old are omitted
  std::string why_none;       ///< the reason, if `ordinals` is empty
  bool hidden = false;        ///< GPUs may exist that this process cannot use, so the caller should warn
};
/// Finds the usable GPUs. Builds without CUDA find none.
CudaGpus find_gpus();

// The following functions exist only in builds with CUDA:

CudaGpus find_cuda_gpus();

/// Returns the names and versions of CUDA, cuDNN and cuBLAS at build time: "CUDA 12.4".
std::vector<std::string> cuda_libraries();

/// Opens the GPU at index `local_rank` of `ordinals`. If there are more ranks than GPUs, indices start again at 0.
std::unique_ptr<Device> open_cuda_device(const DeviceRequest& request, std::span<const int> ordinals);

// The following function exists in every build. It tells a GPU op which of two implementations of the same computation
// to use. Measurements and tests need this choice.

/// True if the implementation `name` is switched off for GPUs. The environment variable CARILLON_GPU_OFF lists the
/// implementations that are switched off, separated by commas. If the variable is not set, the list is
/// `off_by_default`. In the following list, "otherwise" names the replacement:
///
///   fused_attention         cuDNN's attention in bf16; otherwise matrix products
///   patch_products          convolutions of patches as matrix products; otherwise cuDNN
///   pointwise_products      1x1 convolutions as matrix products; otherwise cuDNN
///   shared_gradients        residual blocks without sums and copies of gradients
///   fused_additions         additions of residual blocks in dense and scale_channels; otherwise a kernel
///   measured_plans          the table of measured plans (kernels/conv2d/conv2d_plan_cuda.h); otherwise rules
///   bias_gradient_epilogue  bias gradients from the product of the weights' gradient; otherwise a kernel
bool is_switched_off(std::string_view name);

/// This implementation is off by default, because cuBLASLt does not document the summation order of its epilogue. No
/// test on a GPU has shown so far that two runs with this epilogue compute equal bits.
inline constexpr std::string_view off_by_default = "bias_gradient_epilogue";

/// Owner of objects that several ops use, such as plans that a library needs a long time to make. Each object has a
/// type and a key. Only the main thread may use this class.
class SharedObjects {
 public:
  /// Returns the object with this type and key. The first request calls `make`. Later requests return the same object,
  /// or null if `make` returned null.
  template <typename T>
  const T* get(const std::string& key, const std::function<std::unique_ptr<T>()>& make) {
    const std::pair name{std::type_index(typeid(T)), key};
    const auto found = objects_.find(name);
    if (found != objects_.end()) return static_cast<const T*>(found->second.get());
    std::shared_ptr<T> made = make();
    objects_.emplace(name, made);
    return made.get();
  }

  std::size_t count() const { return objects_.size(); }

 private:
  std::map<std::pair<std::type_index, std::string>, std::shared_ptr<void>> objects_;
};

/// Orders a second (side) stream and the compute stream by events.
///
///   compute  --gradients of bucket 0--ready---gradients of bucket 1--ready----------wait--update
///   side                                 wait--reduce bucket 0--------  wait--reduce bucket 1--done
///
/// Every bucket records the same event again. A wait refers to the latest record at the time when the wait is enqueued.
/// In a stream capture, the waits fork and join the streams, so that the side stream becomes part of the graph.
///
/// `Stream`: a handle of an in-order queue. `Event` must have record(stream) and make_wait(stream), like CudaEvent.
template <typename Event, typename Stream>
class SideWork {
 public:
  /// `side` outlives this object.
  explicit SideWork(const Stream& side) : side_(side) {}

  const Stream& side() const { return side_; }
  /// Work that is enqueued on `side` after this call waits for the work that is already enqueued on `compute`.
  void fork(const Stream& compute) {
    ready_.record(compute);
    ready_.make_wait(side_);
    forked_ = true;
  }
  /// Work that is enqueued on `compute` after this call waits for the work that is already enqueued on `side`.
  void join(const Stream& compute) {
    if (!forked_) return;  // without a fork, the side stream is not part of the capture
    done_.record(side_);
    done_.make_wait(compute);
    forked_ = false;
  }

 private:
  const Stream& side_;
  Event ready_, done_;
  bool forked_ = false;
};

}  // namespace carillon
