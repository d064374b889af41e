// The fake's `launch`. Checks the limits that a real GPU has for launches. Runs the kernel by `emulate`
// (tests/support/emulate.h) when the stream reaches it. This file replaces kernels/shared/launch.cuh.
#pragma once

#include <cstddef>
#include <type_traits>
#include <typeinfo>

#include "kernels/shared/block_kernel.h"
#include "src/device/cuda_device.h"
#include "support/fake_cuda/fake_cuda.h"
#include "tests/support/emulate.h"

namespace carillon {

/// Enqueues `kernel`. Does nothing if the kernel has no blocks.
template <typename Kernel>
requires BlockKernel<Kernel> || LoopedKernel<Kernel>
void launch(const Kernel& kernel, Stream& stream) {
  constexpr std::size_t most_parameter_bytes = 4096, most_shared_bytes = std::size_t{48} << 10;
  static_assert(std::is_trivially_copyable_v<Kernel> && sizeof(Kernel) <= most_parameter_bytes);
  static_assert(Kernel::threads >= 1 && Kernel::threads <= 1024);
  static_assert(std::is_trivially_copyable_v<typename Kernel::Shared> &&
                sizeof(typename Kernel::Shared) <= most_shared_bytes);
  if constexpr (LoopedKernel<Kernel>) static_assert(std::is_trivially_copyable_v<typename Kernel::Private>);
  if (kernel.blocks() == 0) return;
  if (kernel.blocks() < 0) fake_cuda::misuse("a launch of a negative number of blocks");
  check_cuda(fake_cuda::enqueue_kernel(
      as_cuda(stream).get(),
      [kernel] {
        testing::emulate(kernel,
                         fake_cuda::draw(2) == 0 ? testing::ThreadOrder::ascending : testing::ThreadOrder::descending);
      },
      typeid(Kernel).name()));
}

}  // namespace carillon
