#include "src/comm/allreduce/communicators.h"

#include <gtest/gtest.h>

#include "carillon/core/error.h"
#include "src/device/cpu_device.h"

namespace carillon::testing {
namespace {

using Calls = std::vector<std::string>;

class RecordingHost final : public Communicator {
 public:
  explicit RecordingHost(Calls& calls) : calls_(calls) {}
  std::string_view name() const override { return "recording"; }
  int rank() const override { return 0; }
  int size() const override { return 2; }
  Buffer allocate(std::size_t bytes) override {
    Buffer memory = device_.allocate(bytes);
    base_ = static_cast<float*>(memory.data());
    return memory;
  }
  void acquire(Stream&) override { calls_.emplace_back("acquire"); }
  void start_allreduce_mean(std::span<float> bucket, Stream&) override {
    calls_.push_back(fmt::format("average {} {}", bucket.data() - base_, bucket.size()));
  }
  void finish(Stream&) override { calls_.emplace_back("finish"); }
  void broadcast(std::span<float>, int) override {}
  void mean(std::span<float>) override { calls_.emplace_back("mean"); }
  void check_peers() override { calls_.emplace_back("check peers"); }

 private:
  Calls& calls_;
  CpuDevice device_{1};
  float* base_ = nullptr;
};

/// Records the calls. Each download is complete when the host polls it for the second time.
class RecordingCopies final : public StagingCopies {
 public:
  explicit RecordingCopies(Calls& calls) : calls_(calls) {}
  ~RecordingCopies() override { calls_.emplace_back("end of copies"); }
  void prepare(std::span<std::byte> host) override {
    base_ = reinterpret_cast<const float*>(host.data());
    calls_.push_back(fmt::format("prepare {}", host.size()));
  }
  void start_download(std::size_t bucket, std::span<const float> device, float* host, Stream&) override {
    calls_.push_back(fmt::format("download {}: {} {}", bucket, host - base_, device.size()));
    looks_ = 0;
  }
  bool downloaded(std::size_t bucket) override {
    calls_.push_back(fmt::format("look at {}", bucket));
    return ++looks_ % 2 == 0;
  }
  void start_upload(std::span<const float> host, float*, Stream&) override {
    calls_.push_back(fmt::format("upload {} {}", host.data() - base_, host.size()));
  }

 private:
  Calls& calls_;
  const float* base_ = nullptr;
  int looks_ = 0;
};

TEST(StagedCommunicator, CopiesBucketsInTurnAndWritesTheHostsMemoryOnlyAfterAcquire) {
  Calls calls;
  CpuDevice device(1);
  auto staged = make_staged_communicator({std::make_unique<CpuDevice>(1), std::make_unique<RecordingHost>(calls)},
                                         device, std::make_unique<RecordingCopies>(calls));
  EXPECT_EQ(staged->name(), "recording, staged");
  EXPECT_FALSE(staged->capturable());
  const Buffer memory = staged->allocate(40 * sizeof(float));
  EXPECT_EQ(calls, Calls{"prepare 160"});
  const std::span<float> array{static_cast<float*>(memory.data()), 40};
  for (int step = 0; step < 2; ++step) {
    calls.clear();
    staged->acquire(device.stream());
    staged->start_allreduce_mean(array.first(16), device.stream());
    staged->start_allreduce_mean(array.subspan(16), device.stream());
    staged->finish(device.stream());
    EXPECT_EQ(calls, (Calls{"acquire", "download 0: 0 16", "download 1: 16 24", "look at 0", "check peers", "look at 0",
                            "average 0 16", "look at 1", "check peers", "look at 1", "average 16 24", "finish",
                            "upload 0 16", "upload 16 24"}));
  }
  calls.clear();
  staged.reset();
  EXPECT_EQ(calls, Calls{"end of copies"});
}

}  // namespace
}  // namespace carillon::testing
