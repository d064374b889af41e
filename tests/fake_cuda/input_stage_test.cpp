// Tests what a GPU's memory contains after its input stage. Kernels of the fake GPU read the memory.
#include "src/step/input/input_stage.h"

#include "carillon/core/error.h"
#include "src/device/cuda_device.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/target_records.h"

namespace carillon::testing {
namespace {

constexpr std::size_t batch_size = 3, image_bytes = 4;
const TargetSpec spec{DType::u8, {5}};

class InputStageTest : public GpuTest {
 protected:
  InputStageTest() {
    for (std::size_t i = 0; i < 7 * image_bytes; ++i) images_.push_back(static_cast<std::uint8_t>(3 * i));
    for (std::size_t i = 0; i < 7 * spec.bytes(); ++i) targets_.push_back(static_cast<std::byte>(11 * i));
  }
  Dataset dataset() const { return dataset_with_targets({2, 2, 1}, spec, images_, targets_); }

  /// Expects that `table` returns the images and targets of `records` for the current step.
  void expect_found(const StepTable& table, std::span<const std::uint32_t> records) const {
    for (std::size_t i = 0; i < records.size(); ++i) {
      const std::uint8_t* const image = images_.data() + records[i] * image_bytes;
      EXPECT_TRUE(std::equal(image, image + image_bytes, table.image(i))) << i;
      const std::byte* const target = targets_.data() + records[i] * spec.bytes();
      EXPECT_TRUE(std::equal(target, target + spec.bytes(), table.target<std::byte>(i))) << i;
    }
  }

  std::vector<std::uint8_t> images_;
  std::vector<std::byte> targets_;
};

TEST_F(InputStageTest, TargetsOfAnySizeComeWithTheirImages) {
  CudaDevice device(0);
  const Dataset set = dataset();
  for (const Dataset* const kept : {static_cast<const Dataset*>(nullptr), &set}) {
    const auto stage = make_input_stage(device, {.batch_size = batch_size,
                                                 .image_bytes = image_bytes,
                                                 .target_bytes = spec.bytes(),
                                                 .slots = 2,
                                                 .dataset = kept});
    EXPECT_EQ(stage->keeps_records(), kept != nullptr);
    EXPECT_EQ(stage->inputs().targets, nullptr);
    const std::vector<std::uint32_t> records{6, 0, 4};
    std::vector<const std::uint8_t*> images;
    std::vector<std::byte> targets;
    for (const std::uint32_t record : records) {
      images.push_back(set.image(record));
      std::ranges::copy(set.target(record), std::back_inserter(targets));
    }
    Batch batch{.records = records};
    if (kept == nullptr) batch = {.images = images, .targets = targets, .records = records};
    for (const std::uint32_t slot : {0u, 1u}) {
      stage->write(slot, {.batch = batch});
      stage->upload(slot, 1, device.stream());
    }
    const auto look = [&] { expect_found(stage->inputs().table, records); };  // only a kernel may read device memory
    ASSERT_EQ(fake_cuda::enqueue_kernel(as_cuda(device.stream()).get(), look, "look"), cudaSuccess);
    device.stream().synchronize();
  }
}

TEST_F(InputStageTest, KeepsAPartOfTheRecords) {
  CudaDevice device(0);
  const Dataset set = dataset();
  InputStageSpec form{.batch_size = batch_size,
                      .image_bytes = image_bytes,
                      .target_bytes = spec.bytes(),
                      .dataset = &set,
                      .kept = {.begin = 2, .end = 6}};
  const auto stage = make_input_stage(device, form);
  ASSERT_TRUE(stage->keeps_records());
  const std::vector<std::uint32_t> records{5, 2, 4};
  stage->write(0, {.batch = {.records = records}});
  stage->upload(0, 1, device.stream());
  const auto look = [&] { expect_found(stage->inputs().table, records); };
  ASSERT_EQ(fake_cuda::enqueue_kernel(as_cuda(device.stream()).get(), look, "look"), cudaSuccess);
  device.stream().synchronize();
  for (const std::uint32_t absent : {1u, 6u}) {
    const std::vector<std::uint32_t> others{5, absent, 4};
    EXPECT_THROW(stage->write(0, {.batch = {.records = others}}), Error);
  }
}

TEST_F(InputStageTest, KeepsNoMoreBytesThanItMay) {
  CudaDevice device(0);
  const Dataset set = dataset();
  constexpr std::size_t records = 4, bytes = records * (image_bytes + 5);
  for (const std::size_t most : {bytes - 1, bytes}) {
    const auto stage = make_input_stage(device, {.batch_size = batch_size,
                                                 .image_bytes = image_bytes,
                                                 .target_bytes = spec.bytes(),
                                                 .dataset = &set,
                                                 .kept = {.begin = 2, .end = 2 + records},
                                                 .max_kept_bytes = most});
    EXPECT_EQ(stage->keeps_records(), most == bytes);
  }
}

TEST_F(InputStageTest, TargetsOfAnotherSizeAreRefused) {
  CudaDevice device(0);
  const Dataset set = dataset();
  const InputStageSpec expected{.batch_size = 1, .image_bytes = image_bytes, .target_bytes = 4};
  const auto stage = make_input_stage(device, expected);
  const std::vector<const std::uint8_t*> images{set.image(0)};
  EXPECT_THROW(stage->write(0, {.batch = {.images = images, .targets = set.target(0)}}), Error);
  InputStageSpec kept = expected;
  kept.dataset = &set;
  EXPECT_THROW(make_input_stage(device, kept), Error);
}

}  // namespace
}  // namespace carillon::testing
