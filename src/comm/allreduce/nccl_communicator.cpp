// NCCL communicator: averages between GPUs, one per rank, in place on the side stream.
//
// With SumOrder::tree, gradients are summed in the tree of core/reduction.h, as in the other communicators.
// ncclAllReduce is not used for this because it does not guarantee an order. Rank r receives slice r of a bucket from
// all ranks, adds the parts, and sends the result to all ranks. Each rank sends and receives 2 (n-1)/n of a bucket, as
// in a ring.
//
// NCCL calls return when the work is enqueued. Errors come in two ways: from the call, or later from
// ncclCommGetAsyncError, if a peer or link is lost while kernels wait for it. Such kernels finish only after
// ncclCommAbort; the error ends all ranks (abort_on_own_error).
#include <nccl.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <source_location>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/shared/tree_sum.h"
#include "src/comm/allreduce/communicators.h"
#include "src/comm/mpi/members.h"
#include "src/comm/transport/group.h"
#include "src/device/cuda_backend.h"
#include "src/device/cuda_device.h"

namespace carillon {
namespace {

void check_nccl(ncclResult_t status, const std::source_location& where = std::source_location::current()) {
  if (status == ncclSuccess) return;
  fail(ExitCode::failed, "NCCL: {}: {} ({}:{}; set NCCL_DEBUG=INFO for details)", ncclGetErrorString(status),
       ncclGetLastError(nullptr), where.file_name(), where.line());
}

/// NCCL reads these variables when it is initialized. This function keeps the values that the user has set. Symmetric
/// kernels and NVLS may add in NVLink's switch, in an order that NVIDIA does not document. A ring has a fixed order.
/// With other settings, no test on several GPUs has shown so far that two runs compute equal bits.
void set_nccl_defaults() {
  for (const auto& [name, value] :
       {std::pair("NCCL_WIN_ENABLE", "0"), {"NCCL_NVLS_ENABLE", "0"}, {"NCCL_ALGO", "Ring"}}) {
    setenv(name, value, 0);
  }
}

/// Call it after set_nccl_defaults.
bool has_windows_enabled() { return std::string_view(std::getenv("NCCL_WIN_ENABLE")) != "0"; }

/// Returns the ranks on which `here` is false. Collective.
std::vector<int> ranks_without(const Mpi& mpi, bool here) {
  std::vector<int> ranks;
  const std::vector<std::string> all = mpi.all_gather(here ? "yes" : "no");
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == "no") ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

/// Returns the ID by which the ranks of a communicator find each other. Collective.
ncclUniqueId shared_id(const Mpi& mpi) {
  ncclUniqueId id{};
  mpi.run_on_all([&] {
    if (mpi.rank() == 0) check_nccl(ncclGetUniqueId(&id));
  });
  mpi.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
  mpi.barrier();  // the broadcast is over on all ranks, so no rank waits inside MPI from here on
  return id;
}

class NcclCommunicator final : public Communicator {
 public:
  /// Do not call it in Mpi::run_on_all: a rank that fails here would wait in MPI, while the other ranks wait for it in
  /// NCCL. The error of one rank ends all ranks.
  NcclCommunicator(const Mpi& mpi, CudaDevice& device, Averaging how)
      : mpi_(mpi),
        device_(device),
        rank_(mpi.rank()),
        size_(mpi.size()),
        sums_as_tree_(how.order == SumOrder::tree && size_ > 1),
        divisor_(static_cast<float>(how.divisor > 0 ? how.divisor : size_)),
        side_work_(device.side_stream()) {
    set_nccl_defaults();
    uses_windows_ = ranks_without(mpi, has_windows_enabled()).empty();
    const ncclUniqueId id = shared_id(mpi);
    check_nccl(ncclCommInitRank(&nccl_, size_, id, rank_));
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  ~NcclCommunicator() override {
    if (abort_.joinable()) {
      abort_.join();  // the thread ends soon, because the captured graphs are destroyed now
    } else if (std::uncaught_exceptions() > exceptions_before_) {
      static_cast<void>(ncclCommAbort(nccl_));  // the function that finalizes NCCL would wait for peers, which may have
                                                // ended
    } else {
      static_cast<void>(ncclCommFinalize(nccl_));
      static_cast<void>(ncclCommDestroy(nccl_));
    }
  }

  std::string_view name() const override { return "nccl"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool capturable() const override { return true; }

  Buffer allocate(std::size_t bytes) override {
    return uses_windows_ ? allocate_with_window(bytes) : device_.allocate(bytes);
  }

  void prepare(std::size_t largest_bucket) override {
    check(largest_bucket_ == 0, "buckets are prepared twice");
    largest_bucket_ = largest_bucket;
    if (!sums_as_tree_) return;
    constexpr std::size_t unit = 16;  // in elements; the sizes of a bucket's slices differ by at most one unit
    parts_ = device_.allocate((largest_bucket + (static_cast<std::size_t>(size_) + 1) * unit) * sizeof(float));
  }

  /// No wait is necessary: `finish` lets the compute stream wait for the means, so later work on this stream may
  /// overwrite them.
  void acquire(Stream& /*stream*/) override {}

  /// The result is a sum, because not all NCCL kernels can average. With SumOrder::tree, the result is a mean.
  void start_allreduce_mean(std::span<float> bucket, Stream& stream) override {
    if (sums_as_tree_) {
      average_as_tree(bucket, stream);
    } else {
      reduce(bucket, ncclSum, stream);
    }
  }
  float result_scale() const override { return sums_as_tree_ ? 1.0f : 1.0f / static_cast<float>(size_); }

  void finish(Stream& stream) override { side_work_.join(as_cuda(stream)); }

  void broadcast(std::span<float> values, int root) override {
    side_work_.fork(device_.compute_stream());
    check_nccl(
        ncclBroadcast(values.data(), values.data(), values.size(), ncclFloat32, root, nccl_, side_work_.side().get()));
    finish_at_once();
  }

  void mean(std::span<float> values) override {
    reduce(values, ncclAvg, device_.stream());
    finish_at_once();
  }

  void all_gather(std::span<float> values, Stream& stream) override {
    const std::size_t own = slice(values, rank_).size();
    check(own * static_cast<std::size_t>(size_) == values.size(), "NCCL gathers slices of equal lengths only");
    side_work_.fork(as_cuda(stream));
    check_nccl(
        ncclAllGather(slice(values, rank_).data(), values.data(), own, ncclFloat32, nccl_, side_work_.side().get()));
    side_work_.join(as_cuda(stream));
  }

  void check_peers() override {
    progress_mpi();
    if (loss_.empty()) {
      ncclResult_t state = ncclSuccess;
      check_nccl(ncclCommGetAsyncError(nccl_, &state));
      if (state == ncclSuccess || state == ncclInProgress) return;
      loss_ = fmt::format(
          "NCCL lost a peer or a link: {}: {}; start again to resume from the last checkpoint (NCCL_DEBUG=INFO for "
          "details)",
          ncclGetErrorString(state), ncclGetLastError(nullptr));
      // ncclCommAbort ends NCCL's kernels immediately, but returns only after captured graphs are destroyed. Therefore
      // another thread calls it.
      abort_ = std::thread([this] { static_cast<void>(ncclCommAbort(nccl_)); });
    }
    fail(ExitCode::lost_rank, "{}", loss_);
  }

 private:
  /// Allocates memory that all ranks map, for NCCL's symmetric kernels (messages of a few MiB). If NCCL cannot register
  /// the memory on one rank, no rank registers it, and NCCL uses it like any other memory.
  Buffer allocate_with_window(std::size_t bytes) {
    void* data = nullptr;
    if (ncclMemAlloc(&data, bytes) != ncclSuccess) {
      fail(ExitCode::failed, "out of GPU memory on {}: NCCL wants {} bytes for gradients, {} are free", device_.name(),
           bytes, device_.free_bytes());
    }
    const auto window = std::make_shared<ncclWindow_t>();
    Buffer buffer(data, bytes, [this, window](void* memory) {
      if (loss_.empty()) deregister(*window);
      static_cast<void>(ncclMemFree(memory));
    });
    check_cuda(cudaMemsetAsync(data, 0, bytes, device_.compute_stream().get()));
    device_.stream().synchronize();
    const ncclResult_t status = ncclCommWindowRegister(nccl_, data, bytes, window.get(), NCCL_WIN_COLL_SYMMETRIC);
    if (status != ncclSuccess) *window = nullptr;
    const std::vector<int> without = ranks_without(mpi_, *window != nullptr);
    if (without.empty()) return buffer;
    deregister(std::exchange(*window, nullptr));
    if (rank_ == 0) {
      print_text(STDERR_FILENO,
                 fmt::format("warning: NCCL has no window for gradients on {}; all ranks average without "
                             "windows (NCCL_DEBUG=INFO for details)\n",
                             rank_list(without)));
    }
    return buffer;
  }

  void deregister(ncclWindow_t window) {
    if (window != nullptr) static_cast<void>(ncclCommWindowDeregister(nccl_, window));
  }

  void reduce(std::span<float> values, ncclRedOp_t operation, Stream& stream) {
    side_work_.fork(as_cuda(stream));
    check_nccl(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat32, operation, nccl_,
                             side_work_.side().get()));
  }

  std::span<float> slice(std::span<float> bucket, int owner) const {
    const Slice part = reduction_slice(bucket.size(), owner, size_);
    return bucket.subspan(part.begin, part.end - part.begin);
  }

  void average_as_tree(std::span<float> bucket, Stream& stream) {
    check(bucket.size() <= largest_bucket_, "a bucket is larger than prepared");
    side_work_.fork(as_cuda(stream));
    const std::span<float> own = slice(bucket, rank_);
    auto* const parts = static_cast<float*>(parts_.data());  // [ranks][own]
    exchange([&](int peer) { return slice(bucket, peer); },
             [&](int peer) { return std::span(parts + static_cast<std::size_t>(peer) * own.size(), own.size()); });
    sum_ranks_as_tree_cuda({.own = own.data(),
                            .others = parts,
                            .count = static_cast<std::int64_t>(own.size()),
                            .rank = static_cast<std::uint32_t>(rank_),
                            .ranks = static_cast<std::uint32_t>(size_),
                            .factor = 1.0f / divisor_},
                           device_.side_stream());
    exchange([&](int /*peer*/) { return own; }, [&](int peer) { return slice(bucket, peer); });
  }

  /// Enqueues one message to and one message from each other rank. Does not send empty messages.
  template <typename ToPeer, typename FromPeer>
  void exchange(const ToPeer& to_peer, const FromPeer& from_peer) {
    const cudaStream_t side = side_work_.side().get();
    check_nccl(ncclGroupStart());
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      const std::span<float> sent = to_peer(peer), received = from_peer(peer);
      if (!sent.empty()) check_nccl(ncclSend(sent.data(), sent.size(), ncclFloat32, peer, nccl_, side));
      if (!received.empty()) check_nccl(ncclRecv(received.data(), received.size(), ncclFloat32, peer, nccl_, side));
    }
    check_nccl(ncclGroupEnd());
  }

  void finish_at_once() {
    side_work_.join(device_.compute_stream());
    CudaEvent done;
    done.record(device_.compute_stream());
    poll_until([&] { return done.done(); }, [this] { check_peers(); });
  }

  const Mpi& mpi_;
  CudaDevice& device_;
  int rank_, size_;
  bool uses_windows_ = false;
  bool sums_as_tree_;
  float divisor_;  // divisor of the sums that SumOrder::tree computes
  std::size_t largest_bucket_ = 0;
  Buffer parts_;  // the other ranks' parts of a slice, for SumOrder::tree
  SideWork<CudaEvent, CudaStream> side_work_;
  ncclComm_t nccl_ = nullptr;
  std::string loss_;   ///< message about a lost peer or link; empty: none
  std::thread abort_;  ///< runs ncclCommAbort after a loss
  int exceptions_before_ = std::uncaught_exceptions();
};

}  // namespace

std::string nccl_version() { return fmt::format("NCCL {}.{}.{}", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH); }

std::unique_ptr<Communicator> make_nccl_communicator(const Mpi& mpi, Device& device, Averaging averaging) {
  return std::make_unique<NcclCommunicator>(mpi, as_cuda(device), averaging);
}

}  // namespace carillon
