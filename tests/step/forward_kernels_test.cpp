#include "src/step/forward/forward_kernels.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/step_ring.h"

namespace carillon::testing {
namespace {

constexpr ThreadOrder orders[] = {ThreadOrder::ascending, ThreadOrder::descending};

TEST(ForwardKernels, AGpusViewsEqualTheHostsBitForBit) {
  constexpr std::size_t batch = 3, rows = 7;
  for (const ImageShape& shape :
       {ImageShape{2, 2, 1}, ImageShape{5, 3, 2}, ImageShape{28, 28, 1}, ImageShape{32, 40, 3}}) {
    const std::size_t bytes = shape.bytes();
    StepRing ring(batch, 2, static_cast<std::uint32_t>(bytes), random_bytes(rows * bytes, 3), {});
    ring.put(1, {}, scattered_rows(batch, rows));
    ring.step_counter = 1;
    for (const ImageView& view : augmented_views) {
      std::vector<std::uint8_t> expected(batch * bytes + 1, 77);
      for (std::size_t i = 0; i < batch; ++i) {
        write_view(view, shape, ring.image(scattered_rows(batch, rows)[i]), expected.data() + i * bytes);
      }
      for (const ThreadOrder order : orders) {
        std::vector<std::uint8_t> found(batch * bytes + 1, 77);
        emulate(WriteViewKernel{.table = ring.table(),
                                .map = ViewMap(view, shape),
                                .channels = static_cast<std::int32_t>(shape.channels),
                                .views = found.data(),
                                .batch = batch},
                order);
        EXPECT_EQ(found, expected) << shape.height << " x " << shape.width << ", shift " << view.shift;
      }
    }
  }
}

template <typename T>
void expect_weighted_sums() {
  constexpr std::uint32_t capacity = 4, batches = 6;
  constexpr std::int64_t count = 300;  // the number of elements is so large that the kernel needs two blocks
  for (const ThreadOrder order : orders) {
    StepRing ring(1, capacity, 1, {}, {});
    std::vector<float> sums = filled<float>(capacity * count), expected = sums;
    for (std::uint32_t batch = 0; batch < batches; ++batch) {
      float* const expected_sums = expected.data() + batch % capacity * count;
      std::fill_n(expected_sums, count, 0.0f);
      for (const std::size_t view : {0, 1, 2}) {
        const float weight = view == 0 ? 0.5f : 0.25f;
        std::vector<T> outputs(count);
        for (std::int64_t i = 0; i < count; ++i) {
          outputs[i] = stored_as<T>(static_cast<float>(i) * 0.37f - static_cast<float>(10 * batch + view));
          expected_sums[i] += weight * to_float(outputs[i]);
        }
        EXPECT_EQ(ring.step_counter, batch) << "only the last view ends a batch";
        emulate(CollectOutputsKernel<T>{.progress = ring.progress(),
                                        .outputs = outputs.data(),
                                        .sums = sums.data(),
                                        .count = count,
                                        .weight = weight,
                                        .is_first = view == 0,
                                        .is_last = view == 2},
                order);
      }
      EXPECT_TRUE(equal_bits(sums, expected)) << batch;
    }
    EXPECT_EQ(ring.step_counter, batches);
    EXPECT_EQ(ring.blocks_done, 0u);
  }
}

TEST(ForwardKernels, OutputsOfViewsAreAddedInTheirOrder) {
  expect_weighted_sums<float>();
  expect_weighted_sums<Bf16>();
}

constexpr ImageShape shape{.height = 2, .width = 3, .channels = 2};
const std::vector<std::uint8_t> image{11, 61, 12, 62, 13, 63, 21, 71, 22, 72, 23, 73};

std::vector<std::uint8_t> seen(const ImageView& view) {
  std::vector<std::uint8_t> out(shape.bytes());
  write_view(view, shape, image.data(), out.data());
  return out;
}

TEST(ImageViews, AShiftReflectsWhatItOpensWithoutTheEdge) {
  using Bytes = std::vector<std::uint8_t>;
  EXPECT_EQ(seen({.shift = 0}), image);
  EXPECT_EQ(seen({.shift = -1}), (Bytes{22, 72, 21, 71, 22, 72, 12, 62, 11, 61, 12, 62}));
  EXPECT_EQ(seen({.shift = 1}), (Bytes{22, 72, 23, 73, 22, 72, 12, 62, 13, 63, 12, 62}));
}

TEST(ImageViews, ASingleRowReflectsToItself) {
  constexpr ImageShape row{.height = 1, .width = 3, .channels = 1};
  for (const std::int64_t shift : {-1, 1}) {
    std::vector<std::uint8_t> out(3);
    write_view({.shift = shift}, row, image.data(), out.data());
    EXPECT_EQ(out[1], image[shift < 0 ? 0 : 2]);
  }
}

TEST(ImageViews, MirroringIsOfTheShiftedImage) {
  for (const std::int64_t shift : {-1, 0, 1}) {
    const std::vector<std::uint8_t> plain = seen({.shift = shift}), mirrored = seen({.shift = shift, .mirrored = true});
    for (std::size_t i = 0; i < 12; ++i) {
      const std::size_t row = i / 6, x = i / 2 % 3, channel = i % 2;
      EXPECT_EQ(mirrored[i], plain[(row * 3 + 2 - x) * 2 + channel]) << shift;
    }
  }
}

TEST(ImageViews, TheirWeightsAreOneTogether) {
  float sum = 0.0f;
  for (const ImageView& view : augmented_views) sum += view.weight;
  EXPECT_EQ(sum, 1.0f);
}

}  // namespace

}  // namespace carillon::testing
