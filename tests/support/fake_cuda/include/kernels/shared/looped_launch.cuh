// launch_looped for the fake. Stands in for kernels/shared/looped_launch.cuh.
#pragma once

#include "kernels/shared/launch.cuh"
#include "kernels/shared/looped_kernel.h"
#include "tests/support/emulate_looped.h"

namespace carillon {

/// Enqueues `kernel`; nothing for a launch of no blocks.
template <LoopedKernel Kernel>
void launch_looped(const Kernel& kernel, Stream& stream) {
  constexpr std::size_t most_parameter_bytes = 4096, most_shared_bytes = std::size_t{48} << 10;
  static_assert(std::is_trivially_copyable_v<Kernel> && sizeof(Kernel) <= most_parameter_bytes);
  static_assert(Kernel::threads >= 1 && Kernel::threads <= 1024);
  static_assert(std::is_trivially_copyable_v<typename Kernel::Shared> &&
                sizeof(typename Kernel::Shared) <= most_shared_bytes);
  static_assert(std::is_trivially_copyable_v<typename Kernel::Private>);
  if (kernel.blocks() == 0) return;
  if (kernel.blocks() < 0) fake_cuda::misuse("a launch of a negative number of blocks");
  check_cuda(fake_cuda::enqueue_kernel(
      as_cuda(stream).get(),
      [kernel] {
        testing::emulate_looped(
            kernel, fake_cuda::draw(2) == 0 ? testing::ThreadOrder::ascending : testing::ThreadOrder::descending);
      },
      typeid(Kernel).name()));
}

}  // namespace carillon
