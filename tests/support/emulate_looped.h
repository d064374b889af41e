// emulate_looped: runs a LoopedKernel on the CPU like a GPU, as emulate.h.
#pragma once

#include <cstring>
#include <vector>

#include "kernels/shared/looped_kernel.h"
#include "tests/support/emulate.h"

namespace carillon::testing {

/// Calls body(thread) for all threads of a block.
template <typename Kernel, typename Body>
void for_threads(ThreadOrder order, const Body& body) {
  for (int i = 0; i < Kernel::threads; ++i) body(order == ThreadOrder::ascending ? i : Kernel::threads - 1 - i);
}

template <typename Kernel, int phase>
void run_round_from(const Kernel& kernel, typename Kernel::Shared& shared, typename Kernel::Private* own, int block,
                    int round, ThreadOrder order) {
  if constexpr (phase < Kernel::phases) {
    for_threads<Kernel>(order,
                        [&](int thread) { kernel.template run<phase>(shared, own[thread], block, thread, round); });
    run_round_from<Kernel, phase + 1>(kernel, shared, own, block, round, order);
  }
}

template <typename Kernel, int phase>
void finish_from(const Kernel& kernel, typename Kernel::Shared& shared, typename Kernel::Private* own, int block,
                 ThreadOrder order) {
  if constexpr (phase < Kernel::last_phases) {
    for_threads<Kernel>(order, [&](int thread) { kernel.template finish<phase>(shared, own[thread], block, thread); });
    finish_from<Kernel, phase + 1>(kernel, shared, own, block, order);
  }
}

/// As emulate. Private memory starts as NaNs, too.
template <LoopedKernel Kernel>
void emulate_looped(const Kernel& kernel, ThreadOrder order = ThreadOrder::ascending) {
  std::vector<typename Kernel::Shared> shared(1);
  std::vector<typename Kernel::Private> own(static_cast<std::size_t>(Kernel::threads));
  const int blocks = kernel.blocks();
  for (int i = 0; i < blocks; ++i) {
    const int block = order == ThreadOrder::ascending ? i : blocks - 1 - i;
    std::memset(static_cast<void*>(shared.data()), 0xff, sizeof(typename Kernel::Shared));
    std::memset(static_cast<void*>(own.data()), 0xff, own.size() * sizeof(typename Kernel::Private));
    for (int round = 0; round < kernel.rounds(); ++round) {
      run_round_from<Kernel, 0>(kernel, shared[0], own.data(), block, round, order);
    }
    finish_from<Kernel, 0>(kernel, shared[0], own.data(), block, order);
  }
}

}  // namespace carillon::testing
