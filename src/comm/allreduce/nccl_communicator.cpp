// Averages between GPUs by NCCL, one GPU per rank, on the side stream, in place.
//
// The library's calls block only until work is enqueued, and their errors come in two ways: at once, or later, from
// ncclCommGetAsyncError, when a peer or a link is lost while kernels wait for it. Those kernels then never end by
// themselves; the error ends all ranks (abort_on_own_error).
#include <nccl.h>

#include <exception>
#include <memory>
#include <source_location>

#include "src/comm/allreduce/communicators.h"
#include "src/comm/allreduce/side_work.h"
#include "src/comm/stall/bounded_wait.h"
#include "src/device/cuda_device.h"
#include "src/device/poll.h"

namespace carillon {
namespace {

void check_nccl(ncclResult_t status, const std::source_location& where = std::source_location::current()) {
  if (status == ncclSuccess) return;
  fail(ExitCode::failed, "NCCL: {}: {} ({}:{}; NCCL_DEBUG=INFO tells more)", ncclGetErrorString(status),
       ncclGetLastError(nullptr), where.file_name(), where.line());
}

/// The id by which the ranks of a communicator find each other. Collective.
ncclUniqueId shared_id(const Mpi& mpi) {
  ncclUniqueId id{};
  mpi.run_on_all([&] {
    if (mpi.rank() == 0) check_nccl(ncclGetUniqueId(&id));
  });
  mpi.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
  mpi.barrier();  // the broadcast has come to an end everywhere: from here on no rank waits inside MPI for another
  return id;
}

class NcclCommunicator final : public Communicator {
 public:
  /// Not in Mpi::run_on_all: a rank that fails here would wait for others that wait for it. Its error ends all ranks.
  NcclCommunicator(const Mpi& mpi, CudaDevice& device)
      : device_(device), rank_(mpi.rank()), size_(mpi.size()), side_work_(device.side_stream()) {
    const ncclUniqueId id = shared_id(mpi);
    check_nccl(ncclCommInitRank(&nccl_, size_, id, rank_));
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  ~NcclCommunicator() override {
    if (std::uncaught_exceptions() > exceptions_before_) {
      static_cast<void>(ncclCommAbort(nccl_));  // to finalize is to wait for peers, which may not come
    } else {
      static_cast<void>(ncclCommFinalize(nccl_));
      static_cast<void>(ncclCommDestroy(nccl_));
    }
  }

  std::string_view name() const override { return "nccl"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool capturable() const override { return true; }

  /// Memory that all ranks map where their GPUs reach each other, for the library's symmetric kernels, which are
  /// meant for a few MiB. Elsewhere NCCL registers nothing, and reads it as any memory.
  Buffer allocate(std::size_t bytes) override {
    void* data = nullptr;
    if (ncclMemAlloc(&data, bytes) != ncclSuccess) {
      fail(ExitCode::failed, "out of GPU memory on {}: NCCL wants {} bytes for gradients, {} are free", device_.name(),
           bytes, device_.free_bytes());
    }
    const auto window = std::make_shared<ncclWindow_t>();
    Buffer buffer(data, bytes, [this, window](void* memory) {
      if (*window != nullptr) static_cast<void>(ncclCommWindowDeregister(nccl_, *window));
      static_cast<void>(ncclMemFree(memory));
    });
    check_cuda(cudaMemsetAsync(data, 0, bytes, device_.compute_stream().get()));
    device_.stream().synchronize();
    check_nccl(ncclCommWindowRegister(nccl_, data, bytes, window.get(), NCCL_WIN_COLL_SYMMETRIC));
    return buffer;
  }

  /// `finish` lets the compute stream wait for the means, so what follows in it may overwrite them.
  void acquire(Stream& /*stream*/) override {}

  /// Leaves sums: not all of the library's kernels average.
  void start_allreduce_mean(std::span<float> bucket, Stream& stream) override { reduce(bucket, ncclSum, stream); }
  float result_scale() const override { return 1.0f / static_cast<float>(size_); }

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

  void check_peers() override {
    progress_mpi();
    ncclResult_t state = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(nccl_, &state));
    if (state == ncclSuccess || state == ncclInProgress) return;
    fail(ExitCode::failed,
         "NCCL lost a peer or a link: {}: {}; start again to go on from the last checkpoint (NCCL_DEBUG=INFO tells "
         "more)",
         ncclGetErrorString(state), ncclGetLastError(nullptr));
  }

 private:
  void reduce(std::span<float> values, ncclRedOp_t operation, Stream& stream) {
    side_work_.fork(as_cuda(stream));
    check_nccl(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat32, operation, nccl_,
                             side_work_.side().get()));
  }

  void finish_at_once() {
    side_work_.join(device_.compute_stream());
    CudaEvent done;
    done.record(device_.compute_stream());
    poll_until([&] { return done.done(); }, [this] { check_peers(); });
  }

  CudaDevice& device_;
  int rank_, size_;
  SideWork<CudaEvent, CudaStream> side_work_;
  ncclComm_t nccl_ = nullptr;
  int exceptions_before_ = std::uncaught_exceptions();
};

}  // namespace

LibraryVersion nccl_version() { return {"NCCL", dotted(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)}; }

std::unique_ptr<Communicator> make_nccl_communicator(const Mpi& mpi, Device& device) {
  return std::make_unique<NcclCommunicator>(mpi, as_cuda(device));
}

}  // namespace carillon
