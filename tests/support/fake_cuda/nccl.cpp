// The fake's NCCL. When the stream reaches an operation, MPI runs the operation. While the operation runs, the memory
// of its result contains garbage. All-reduces add the ranks' values in rank order.
#include <mpi.h>
#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "fake_nccl.h"
#include "memory.h"
#include "objects.h"

struct ncclComm {
  int ranks, rank;
  bool finalized = false;
  int windows = 0;
  bool aborted = false;          ///< the communicator's work ends without results
  MPI_Comm mpi = MPI_COMM_NULL;  ///< null if there is only one rank
};

struct ncclWindow {
  void* memory;
};

using namespace fake_cuda;

namespace {

struct Faults {
  bool no_windows = false;
  std::vector<Stall> lost_peers;
};
Faults& faults() {
  static Faults instance;
  return instance;
}

std::vector<std::string>& variables_read() {
  static std::vector<std::string> instance;
  return instance;
}

void read_variables() {
  std::string all;
  for (const char* const name : {"NCCL_WIN_ENABLE", "NCCL_NVLS_ENABLE", "NCCL_ALGO"}) {
    const char* const value = std::getenv(name);
    all += (all.empty() ? "" : " ") + std::string(value == nullptr ? "none" : value);
  }
  variables_read().push_back(all);
}

int& registered_windows() {
  static int count = 0;
  return count;
}

void require_on_device(const void* memory, std::size_t bytes) {
  if (place_of(memory, bytes) != Place::device) misuse("NCCL is given memory that is not the device's");
}

/// A message that was added to the open group.
struct Message {
  std::byte* memory;
  std::size_t bytes;
  int peer;
  bool is_sent;
  ncclComm_t communicator;
  cudaStream_t stream;
};
std::vector<Message>& group() {
  static std::vector<Message> instance;
  return instance;
}
int& open_groups() {
  static int count = 0;
  return count;
}

using Bytes = std::vector<std::byte>;
using Kept = std::vector<Bytes>;

/// Sends and receives all messages at the same time. `sent[i]`: copy of the content of message i, if it is sent.
void exchange(const std::vector<Message>& messages, Kept& sent) {
  if (messages.front().communicator->aborted) return;
  std::vector<MPI_Request> requests(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    const int bytes = static_cast<int>(message.bytes);
    if (message.is_sent) {
      MPI_Isend(sent[i].data(), bytes, MPI_BYTE, message.peer, 0, message.communicator->mpi, &requests[i]);
    } else {
      MPI_Irecv(message.memory, bytes, MPI_BYTE, message.peer, 0, message.communicator->mpi, &requests[i]);
    }
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

ncclResult_t enqueue_exchange(const std::vector<Message>& messages) {
  if (messages.empty()) return ncclSuccess;
  const cudaStream_t stream = messages.front().stream;
  const auto sent = std::make_shared<Kept>(messages.size());
  const auto begin = [=] {
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const Message& message = messages[i];
      if (message.is_sent) (*sent)[i].assign(message.memory, message.memory + message.bytes);
    }
    for (const Message& message : messages) {
      if (!message.is_sent) std::memset(message.memory, 0xff, message.bytes);
    }
  };
  const bool began = enqueue_kernel(stream, begin, "nccl_begin") == cudaSuccess;
  const bool ended = enqueue_kernel(
                         stream, [=] { exchange(messages, *sent); }, "nccl_end") == cudaSuccess;
  return began && ended ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t add_message(const Message& message) {
  const Guard guard(api_mutex());
  require_on_device(message.memory, message.bytes);
  if (open_groups() == 0) misuse("a message outside of a group may wait for ever");
  group().push_back(message);
  return ncclSuccess;
}

/// Returns the bytes of all ranks, in rank order. If the communicator was aborted, returns 0xff bytes. Collective.
Bytes gathered(const Bytes& own, ncclComm_t communicator) {
  if (communicator->aborted) return Bytes(own.size() * static_cast<std::size_t>(communicator->ranks), std::byte{0xff});
  if (communicator->mpi == MPI_COMM_NULL) return own;
  Bytes all(own.size() * static_cast<std::size_t>(communicator->ranks));
  const int bytes = static_cast<int>(own.size());
  MPI_Allgather(own.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, communicator->mpi);
  return all;
}

/// Enqueues an operation that gathers the bytes `from` of all ranks, and then calls end(all bytes). `end` must write
/// `to_bytes` bytes to `to`; until then, `to` contains garbage.
ncclResult_t enqueue_gather(const void* from, std::size_t bytes, void* to, std::size_t to_bytes,
                            ncclComm_t communicator, cudaStream_t stream, std::function<void(const Bytes& all)> end) {
  const Guard guard(api_mutex());
  require_on_device(from, bytes);
  require_on_device(to, to_bytes);
  const auto kept = std::make_shared<Bytes>(bytes);
  const auto begin = [=] {
    std::memcpy(kept->data(), from, bytes);
    std::memset(to, 0xff, to_bytes);
  };
  const bool began = enqueue_kernel(stream, begin, "nccl_begin") == cudaSuccess;
  const bool ended = enqueue_kernel(
                         stream, [=] { end(gathered(*kept, communicator)); }, "nccl_end") == cudaSuccess;
  return began && ended ? ncclSuccess : ncclInvalidArgument;
}

/// Sets to[i] to the sum, over all ranks r, of factor * (value i of rank r). `all`: the floats of all ranks, in rank
/// order.
void add_all(const Bytes& all, int ranks, float factor, std::size_t count, float* to) {
  std::vector<float> values(all.size() / sizeof(float));
  std::memcpy(values.data(), all.data(), all.size());
  for (std::size_t i = 0; i < count; ++i) {
    float sum = factor * values[i];
    for (std::size_t rank = 1; rank < static_cast<std::size_t>(ranks); ++rank) sum += factor * values[rank * count + i];
    to[i] = sum;
  }
}

}  // namespace

namespace fake_cuda {

void fail_nccl_windows(bool fails) { faults().no_windows = fails; }
int nccl_windows() { return registered_windows(); }
std::vector<std::string> nccl_variables() { return std::exchange(variables_read(), {}); }
void lose_nccl_peer(cudaStream_t stream) { faults().lost_peers.emplace_back(stream); }

}  // namespace fake_cuda

const char* ncclGetErrorString(ncclResult_t result) { return result == ncclSuccess ? "no error" : "an error"; }
const char* ncclGetLastError(ncclComm_t /*communicator*/) { return "nothing"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  read_variables();
  *id = {};
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int ranks, ncclUniqueId /*id*/, int rank) {
  read_variables();
  ++library_objects();
  *communicator = new ncclComm{.ranks = ranks, .rank = rank};
  if (ranks > 1) MPI_Comm_dup(MPI_COMM_WORLD, &(*communicator)->mpi);
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  const Guard guard(api_mutex());
  timeline().run_all();
  communicator->finalized = true;
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclMemFree(void* memory) { return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclInvalidArgument; }

ncclResult_t ncclCommWindowRegister(ncclComm_t communicator, void* memory, std::size_t bytes, ncclWindow_t* window,
                                    int /*flags*/) {
  const Guard guard(api_mutex());
  if (place_of(memory, bytes) != Place::device) misuse("ncclCommWindowRegister of memory that is not the device's");
  if (faults().no_windows) return ncclSystemError;
  if (!settings().nccl_windows) return ncclSuccess;
  ++registered_windows();
  ++communicator->windows;
  *window = new ncclWindow{memory};
  return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t communicator, ncclWindow_t window) {
  const Guard guard(api_mutex());
  if (place_of(window->memory, 1) != Place::device) misuse("ncclCommWindowDeregister of memory that is freed");
  --registered_windows();
  --communicator->windows;
  delete window;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  if (communicator->windows != 0) misuse("ncclCommDestroy while memory is registered");
  if (!communicator->finalized) misuse("ncclCommDestroy before ncclCommFinalize");
  if (!executables().all.empty()) misuse("ncclCommDestroy waits for captured graphs, which are still there");
  --library_objects();
  if (communicator->mpi != MPI_COMM_NULL) MPI_Comm_free(&communicator->mpi);
  delete communicator;
  return ncclSuccess;
}

/// Like NCCL, ends the work of the communicator, then waits until all graphs that captured it are destroyed.
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  constexpr int most_waits = 20000;
  {
    const Guard guard(api_mutex());
    communicator->aborted = true;
    for (Stall& lost : std::exchange(faults().lost_peers, {})) lost.release();
  }
  for (int waits = 0;; ++waits) {
    {
      const Guard guard(api_mutex());
      if (executables().all.empty()) {
        timeline().run_all();
        registered_windows() -= communicator->windows;
        --library_objects();
        delete communicator;
        return ncclSuccess;
      }
    }
    if (waits == most_waits) misuse("ncclCommAbort waits for captured graphs, which are still there");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  const Guard guard(api_mutex());
  if (communicator->aborted) misuse("ncclCommGetAsyncError after ncclCommAbort");
  *error = faults().lost_peers.empty() ? ncclSuccess : ncclSystemError;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t /*type*/,
                           ncclRedOp_t operation, ncclComm_t communicator, cudaStream_t stream) {
  const int ranks = communicator->ranks;
  const float factor = operation == ncclSum ? 1.0f : 1.0f / static_cast<float>(ranks);
  const std::size_t bytes = count * sizeof(float);
  return enqueue_gather(from, bytes, to, bytes, communicator, stream,
                        [=](const Bytes& all) { add_all(all, ranks, factor, count, static_cast<float*>(to)); });
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t /*type*/,
                           ncclComm_t communicator, cudaStream_t stream) {
  const std::size_t bytes = count * sizeof(float), all_bytes = bytes * static_cast<std::size_t>(communicator->ranks);
  return enqueue_gather(from, bytes, to, all_bytes, communicator, stream,
                        [=](const Bytes& all) { std::memcpy(to, all.data(), all.size()); });
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t /*type*/, int root,
                           ncclComm_t communicator, cudaStream_t stream) {
  const std::size_t bytes = count * sizeof(float);
  return enqueue_gather(from, bytes, to, bytes, communicator, stream, [=](const Bytes& all) {
    std::memcpy(to, all.data() + bytes * static_cast<std::size_t>(root), bytes);
  });
}

ncclResult_t ncclGroupStart() {
  ++open_groups();
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  const Guard guard(api_mutex());
  if (--open_groups() > 0) return ncclSuccess;
  return enqueue_exchange(std::exchange(group(), {}));
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t /*type*/, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  auto* const memory = static_cast<std::byte*>(const_cast<void*>(from));
  return add_message({memory, count * sizeof(float), peer, true, communicator, stream});
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t /*type*/, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return add_message({static_cast<std::byte*>(to), count * sizeof(float), peer, false, communicator, stream});
}
