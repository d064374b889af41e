// emulate: runs a BlockKernel on the CPU like a GPU: blocks in any order; all threads of a block finish a phase before
// the next phase starts.
#pragma once

#include <cstring>
#include <memory>

#include "kernels/shared/block_kernel.h"

namespace carillon::testing {

enum class ThreadOrder { ascending, descending };

template <typename Kernel, int phase>
void run_block_from(const Kernel& kernel, typename Kernel::Shared& shared, int block, ThreadOrder order) {
  if constexpr (phase < Kernel::phases) {
    for (int i = 0; i < Kernel::threads; ++i) {
      const int thread = order == ThreadOrder::ascending ? i : Kernel::threads - 1 - i;
      kernel.template run<phase>(shared, block, thread);
    }
    run_block_from<Kernel, phase + 1>(kernel, shared, block, order);
  }
}

/// A result that depends on `order` is a race. Shared memory starts as NaNs, so a sum that reads an
/// unwritten float is NaN.
template <BlockKernel Kernel>
void emulate(const Kernel& kernel, ThreadOrder order = ThreadOrder::ascending) {
  using Shared = typename Kernel::Shared;
  const auto memory = std::make_unique<std::byte[]>(sizeof(Shared) + alignof(Shared));
  void* place = memory.get();
  std::size_t space = sizeof(Shared) + alignof(Shared);
  auto* shared = static_cast<Shared*>(std::align(alignof(Shared), sizeof(Shared), place, space));
  const int blocks = kernel.blocks();
  for (int i = 0; i < blocks; ++i) {
    std::memset(static_cast<void*>(shared), 0xff, sizeof(Shared));
    run_block_from<Kernel, 0>(kernel, *shared, order == ThreadOrder::ascending ? i : blocks - 1 - i, order);
  }
}

}  // namespace carillon::testing
