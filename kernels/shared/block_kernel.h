// BlockKernel: a GPU kernel as a struct. Tests without a GPU can run the arithmetic of the kernel on a CPU.
//
//   struct Shared;                   shared memory of a block
//   static constexpr int threads;    threads of a block
//   static constexpr int phases;     all threads of a block finish a phase before any thread begins the next phase
//   int blocks() const;              blocks of a launch
//   template <int phase>
//   CARILLON_HOST_DEVICE void run(Shared&, int block, int thread) const;
//
// Threads pass values to later phases through Shared. A LoopedKernel is a second kind of kernel: its blocks repeat
// their phases, and its threads keep values in registers. In addition, a LoopedKernel has
//
//   struct Private;                    values that a thread keeps from phase to phase; undefined at first
//   int rounds() const;                number of rounds of each block; all phases run in each round
//   static constexpr int last_phases;  number of phases after the last round
//   template <int phase> void run(Shared&, Private&, int block, int thread, int round) const;
//   template <int phase> void finish(Shared&, Private&, int block, int thread) const;
//
// kernels/shared/launch.cuh runs both kinds on a GPU. tests/support/emulate.h runs both kinds as loops over blocks and
// threads, in any order of threads.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string_view>

#include "carillon/core/error.h"
#include "carillon/core/host_device.h"

/// Write this macro before a loop. The CUDA compiler then unrolls the loop, so that an array that the loop indexes
/// stays in registers.
#ifdef __CUDA_ARCH__
#define CARILLON_UNROLL _Pragma("unroll")
#else
#define CARILLON_UNROLL
#endif

namespace carillon {

template <typename K>
concept BlockKernel = requires(const K& kernel, typename K::Shared& shared) {
  { K::threads } -> std::convertible_to<int>;
  { K::phases } -> std::convertible_to<int>;
  { kernel.blocks() } -> std::same_as<int>;
  kernel.template run<0>(shared, 0, 0);
};

template <typename K>
concept LoopedKernel = requires(const K& kernel, typename K::Shared& shared, typename K::Private& own) {
  { K::threads } -> std::convertible_to<int>;
  { K::phases } -> std::convertible_to<int>;
  { K::last_phases } -> std::convertible_to<int>;
  { kernel.blocks() } -> std::same_as<int>;
  { kernel.rounds() } -> std::same_as<int>;
  kernel.template run<0>(shared, own, 0, 0, 0);
  kernel.template finish<0>(shared, own, 0, 0);
};

struct NoShared {};

/// Calls element(i) for every i in [0, count). Each call has its own thread.
template <typename Element>
struct ForEachElement {
  using Shared = NoShared;
  static constexpr int threads = 256;
  static constexpr int phases = 1;

  Element element;
  std::int64_t count = 0;

  int blocks() const { return static_cast<int>((count + threads - 1) / threads); }
  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared&, int block, int thread) const {
    const std::int64_t i = static_cast<std::int64_t>(block) * threads + thread;
    if (i < count) element(i);
  }
};
template <typename Element>
ForEachElement(Element, std::int64_t) -> ForEachElement<Element>;

/// One step of a block's tree sum: thread t < width adds value t + width to value t. Consecutive phases call this
/// function with width = threads / 2, threads / 4, ..., 1. Afterwards the sum is in values[0]. The order of the
/// additions is always the same.
template <typename T>
CARILLON_HOST_DEVICE void fold(T* values, int thread, int width) {
  if (thread < width) values[thread] += values[thread + width];
}

/// One thread of each block calls this function after a barrier. `blocks`: number of blocks. Returns true only in the
/// block that calls the function last. After the next barrier, all threads of this block see the writes of the other
/// blocks. `done` must be 0 before the first call, and is 0 after the last call.
CARILLON_HOST_DEVICE inline bool is_last_block(std::uint32_t* done, int blocks) {
  if (fetch_increment(done) + 1 != static_cast<std::uint32_t>(blocks)) return false;
  *done = 0;
  return true;
}

/// GPU kernels index the elements of a tensor with 32-bit integers. Errors: usage (a tensor of `op` has too many
/// elements).
inline void check_index_limit(std::string_view op, std::int64_t elements,
                              std::int64_t most = std::numeric_limits<std::uint32_t>::max()) {
  if (elements <= most) return;
  fail(ExitCode::usage,
       "{} on a GPU: a tensor has {} elements, the limit is {}: reduce --batch-size, --micro-batch, --image-size or "
       "--eval-image-size",
       op, elements, most);
}
}  // namespace carillon
