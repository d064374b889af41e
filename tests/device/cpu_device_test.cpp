#include "src/device/cpu_device.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <cfenv>
#include <cstdlib>
#include <limits>
#include <thread>

#include "carillon/core/error.h"
#include "carillon/device/device.h"
#include "src/core/process.h"

namespace carillon::testing {
namespace {

/// Returns true if the calling thread flushes subnormal results to zero and treats subnormal operands as zero.
bool flushes() {
  volatile float smallest = std::numeric_limits<float>::min(), half = 0.5f;
  volatile float denormal = std::numeric_limits<float>::denorm_min(), large = 1e30f;
  return smallest * half == 0.0f && denormal * large == 0.0f;
}

TEST(CpuDevice, FlushesDenormalsInEveryThreadThatComputes) {
  std::fenv_t environment;
  std::fegetenv(&environment);
  environment.__mxcsr &= ~0x8040u;  // a program starts in this mode, and the threads of the pool inherit it
  omp_set_num_threads(3);
  std::atomic<int> flushing = 0;
#pragma omp parallel
  {
    std::fesetenv(&environment);
    flushing += flushes();
  }
  ASSERT_EQ(flushing, 0) << "before there is a device";

  const CpuDevice device(4);
#pragma omp parallel
  flushing += flushes();
  EXPECT_EQ(flushing, 4);
}

TEST(FlushDenormals, CountsForThreadsThatAreStartedLater) {
  flush_denormals();
  bool flushed = false;
  std::thread([&] { flushed = flushes(); }).join();
  EXPECT_TRUE(flushed);
}

TEST(CpuDevice, GivesItsWorkspaceTheLargestSizeAskedFor) {
  CpuDevice device(1);
  device.reserve_workspace(1000);
  device.reserve_workspace(10);
  static_cast<char*>(device.workspace())[999] = 1;
  EXPECT_EQ(static_cast<char*>(device.workspace())[999], 1);
}

TEST(CpuDevice, WorkersComputeAtOnceEachAsIfItWereAlone) {
  CpuDevice device(3);
  ASSERT_EQ(device.workers().size(), 3u);
  for (const int count : {1, 2, 3}) {
    std::vector<int> calls(static_cast<std::size_t>(count));
    std::atomic<int> flushing = 0, alone = 0;
    device.on_workers(count, [&](int worker) {
      ++calls[worker];
      flushing += flushes();
      int threads = 0;
#pragma omp parallel reduction(+ : threads)
      threads += 1;
      alone += threads == 1 && omp_get_thread_num() == 0 && omp_get_max_threads() == 1;
    });
    EXPECT_EQ(calls, std::vector<int>(calls.size(), 1));
    EXPECT_EQ(flushing, count);
    EXPECT_EQ(alone, count);
    EXPECT_EQ(omp_get_max_threads(), 3) << "the caller's own threads";
  }
}

TEST(CpuDevice, WorkersHaveWorkspacesOfTheirOwnAndComputeAsTheDeviceDoes) {
  CpuDevice device(2, {.isa = Isa::plain, .convolution = ConvolutionMethod::winograd});
  for (const auto& worker : device.workers()) {
    CpuDevice& cpu = as_cpu(*worker);
    EXPECT_EQ(cpu.isa(), Isa::plain);
    EXPECT_EQ(cpu.settings().convolution, ConvolutionMethod::winograd);
    EXPECT_EQ(cpu.thread_count(), 1);
    ASSERT_EQ(cpu.workers().size(), 1u);
    EXPECT_TRUE(cpu.workers()[0]->workers().empty());
    cpu.reserve_workspace(64);
  }
  EXPECT_NE(as_cpu(*device.workers()[0]).workspace(), as_cpu(*device.workers()[1]).workspace());
  EXPECT_EQ(device.workspace(), nullptr);
}

TEST(CpuDevice, AWorkerCanHaveItsOwnWorkerCompute) {
  CpuDevice device(3);
  std::atomic<int> alone = 0;
  device.on_workers(3, [&](int worker) {
    device.workers()[worker]->on_workers(
        1, [&](int inner) { alone += inner == 0 && omp_get_num_threads() == 1 && omp_get_max_threads() == 1; });
  });
  EXPECT_EQ(alone, 3);
}

TEST(CpuDevice, ForwardsAWorkersException) {
  CpuDevice device(2);
  const auto fail_in_second = [](int worker) {
    if (worker == 1) fail(ExitCode::data, "the second");
  };
  EXPECT_THROW(device.on_workers(2, fail_in_second), Error);
  EXPECT_NO_THROW(device.on_workers(1, fail_in_second));
}

/// A process can set oneDNN's limit only once, so each test runs in its own process.
class OnednnLimit : public ::testing::Test {
 protected:
  void SetUp() override { ::testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
};

TEST_F(OnednnLimit, IsTheInstructionSetThatTheCpuIsOpenedWith) {
  const auto effective_with = [](std::optional<Isa> isa) {
    const auto device = open_device({.choice = "cpu", .cpu = {.isa = isa}});
    return dnnl::get_effective_cpu_isa();
  };
  for (const Isa isa : available_isas()) {
    if (isa >= Isa::avx512) continue;  // at this time, oneDNN has no limit
    const dnnl::cpu_isa expected = isa == Isa::avx2 ? dnnl::cpu_isa::avx2 : dnnl::cpu_isa::sse41;
    EXPECT_EXIT(std::exit(effective_with(isa) == expected ? 0 : 1), ::testing::ExitedWithCode(0), "")
        << "limited to level " << static_cast<int>(isa);
  }
  const bool plain_only = available_isas().back() == Isa::plain;
  EXPECT_EXIT(std::exit((effective_with(std::nullopt) == dnnl::cpu_isa::sse41) == plain_only ? 0 : 1),
              ::testing::ExitedWithCode(0), "")
      << "without a limit";
}

TEST_F(OnednnLimit, ComesTooLateAfterOnednnHasChosen) {
  const auto limit_late = [] {
    static_cast<void>(dnnl::get_effective_cpu_isa());  // after this, oneDNN refuses another limit
    try {
      limit_onednn(Isa::plain);
    } catch (const Error& error) {
      std::exit(static_cast<int>(error.code()));
    }
    std::exit(0);
  };
  EXPECT_EXIT(limit_late(), ::testing::ExitedWithCode(static_cast<int>(ExitCode::failed)), "");
}

TEST(RoundingIsa, DiffersForAvx512Bf16InBf16Only) {
  EXPECT_EQ(rounding_isa(Isa::amx, Arithmetic::bf16), Isa::avx512);
  EXPECT_EQ(rounding_isa(Isa::avx512_bf16, Arithmetic::bf16), Isa::avx512_bf16);
  EXPECT_EQ(rounding_isa(Isa::avx512_bf16, Arithmetic::fp32), Isa::avx512);
  EXPECT_EQ(rounding_isa(Isa::avx2, Arithmetic::bf16), Isa::avx2);
}

}  // namespace
}  // namespace carillon::testing
