// emulate: runs a BlockKernel or a LoopedKernel on the CPU, by loops over blocks and threads. Blocks and threads run in
// ascending or descending order. As on a GPU, all threads of a block finish a phase before the next phase starts.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "kernels/shared/block_kernel.h"

namespace carillon::testing {

enum class ThreadOrder { ascending, descending };

/// Calls body(i) for 0 <= i < count, in the given order.
template <typename Body>
void in_order(ThreadOrder order, int count, const Body& body) {
  for (int i = 0; i < count; ++i) body(order == ThreadOrder::ascending ? i : count - 1 - i);
}

template <int phase, BlockKernel Kernel>
void run_phases(const Kernel& kernel, typename Kernel::Shared& shared, int block, ThreadOrder order) {
  if constexpr (phase < Kernel::phases) {
    in_order(order, Kernel::threads, [&](int thread) { kernel.template run<phase>(shared, block, thread); });
    run_phases<phase + 1>(kernel, shared, block, order);
  }
}

template <int phase, LoopedKernel Kernel>
void run_round(const Kernel& kernel, typename Kernel::Shared& shared, typename Kernel::Private* own, int block,
               int round, ThreadOrder order) {
  if constexpr (phase < Kernel::phases) {
    in_order(order, Kernel::threads,
             [&](int thread) { kernel.template run<phase>(shared, own[thread], block, thread, round); });
    run_round<phase + 1>(kernel, shared, own, block, round, order);
  }
}

template <int phase, LoopedKernel Kernel>
void run_last_phases(const Kernel& kernel, typename Kernel::Shared& shared, typename Kernel::Private* own, int block,
                     ThreadOrder order) {
  if constexpr (phase < Kernel::last_phases) {
    in_order(order, Kernel::threads,
             [&](int thread) { kernel.template finish<phase>(shared, own[thread], block, thread); });
    run_last_phases<phase + 1>(kernel, shared, own, block, order);
  }
}

template <BlockKernel Kernel>
void run_block(const Kernel& kernel, typename Kernel::Shared& shared, int block, ThreadOrder order) {
  run_phases<0>(kernel, shared, block, order);
}
/// Runs one block. The threads' private memory is first filled with NaN, like shared memory.
template <LoopedKernel Kernel>
void run_block(const Kernel& kernel, typename Kernel::Shared& shared, int block, ThreadOrder order) {
  std::vector<typename Kernel::Private> own(static_cast<std::size_t>(Kernel::threads));
  std::memset(static_cast<void*>(own.data()), 0xff, own.size() * sizeof(typename Kernel::Private));
  for (int round = 0; round < kernel.rounds(); ++round) run_round<0>(kernel, shared, own.data(), block, round, order);
  run_last_phases<0>(kernel, shared, own.data(), block, order);
}

/// Runs all blocks. If the results of the two orders differ, the kernel has a race. Shared memory is first filled with
/// NaN. Therefore a sum becomes NaN if the kernel adds a float that it has not written.
template <typename Kernel>
requires BlockKernel<Kernel> || LoopedKernel<Kernel>
void emulate(const Kernel& kernel, ThreadOrder order = ThreadOrder::ascending) {
  using Shared = typename Kernel::Shared;
  const auto memory = std::make_unique<std::byte[]>(sizeof(Shared) + alignof(Shared));
  void* place = memory.get();
  std::size_t space = sizeof(Shared) + alignof(Shared);
  auto* shared = static_cast<Shared*>(std::align(alignof(Shared), sizeof(Shared), place, space));
  in_order(order, kernel.blocks(), [&](int block) {
    std::memset(static_cast<void*>(shared), 0xff, sizeof(Shared));
    run_block(kernel, *shared, block, order);
  });
}

}  // namespace carillon::testing
