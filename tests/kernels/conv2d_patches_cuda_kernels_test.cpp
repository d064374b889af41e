// Tests the CUDA kernels that copy images to the matrix of their patches, and the matrix back to images. The kernels
// run on the CPU, by loops over blocks and threads (`emulate`).
#include <gtest/gtest.h>

#include "kernels/conv2d/patch_kernels.h"
#include "tests/support/emulate.h"
#include "tests/support/float_arrays.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

constexpr ThreadOrder orders[] = {ThreadOrder::ascending, ThreadOrder::descending};

struct Images {
  std::int64_t batch, height, width, channels, window;
  int pack;                       ///< expected number of elements per pack, for bf16
  std::int64_t window_width = 0;  ///< 0: the same as window

  std::int64_t columns() const { return window_width == 0 ? window : window_width; }
  Conv2dGeometry geometry() const {
    return {slide(height, window, window, Padding::valid), slide(width, columns(), columns(), Padding::valid)};
  }
  std::size_t count() const { return static_cast<std::size_t>(batch * height * width * channels); }
  std::size_t patch_count() const {
    const Conv2dGeometry shape = geometry();
    const std::int64_t patches = batch * shape.vertical.output * shape.horizontal.output;
    return static_cast<std::size_t>(patches * window * columns() * channels);
  }
  /// Returns, for each element of the matrix of patches, the index of the same pixel and channel in the images.
  std::vector<std::size_t> sources() const {
    const Conv2dGeometry shape = geometry();
    std::vector<std::size_t> sources;
    for (std::int64_t n = 0; n < batch; ++n) {
      for (std::int64_t p = 0; p < shape.vertical.output; ++p) {
        for (std::int64_t q = 0; q < shape.horizontal.output; ++q) {
          for (std::int64_t k = 0; k < window * columns() * channels; ++k) {
            const std::int64_t i = k / channels / columns(), j = k / channels % columns();
            const std::int64_t pixel = (n * height + p * window + i) * width + q * columns() + j;
            sources.push_back(static_cast<std::size_t>(pixel * channels + k % channels));
          }
        }
      }
    }
    return sources;
  }
};

constexpr Images all_images[] = {
    {.batch = 2, .height = 32, .width = 48, .channels = 3, .window = 16, .pack = 8},  // patches of ViT
    {.batch = 2, .height = 8, .width = 16, .channels = 3, .window = 4, .pack = 4},    // stem of ConvNeXt
    {.batch = 3, .height = 6, .width = 4, .channels = 24, .window = 2, .pack = 8},    // downsampling of ConvNeXt
    {.batch = 2, .height = 9, .width = 11, .channels = 3, .window = 4, .pack = 1},    // some pixels belong to no patch
    {.batch = 1, .height = 7, .width = 5, .channels = 8, .window = 3, .pack = 8},
    {.batch = 3, .height = 7, .width = 7, .channels = 1, .window = 7, .pack = 1},
    {.batch = 3, .height = 5, .width = 7, .channels = 6, .window = 1, .pack = 2},
    {.batch = 2, .height = 6, .width = 8, .channels = 4, .window = 1, .pack = 8, .window_width = 4},
    {.batch = 2, .height = 7, .width = 9, .channels = 3, .window = 3, .pack = 1, .window_width = 2},
};

template <typename T>
void expect_copies(const Images& images) {
  const std::vector<float> values = floats(rounded<T>(random_values(images.count(), 1)));
  const std::vector<std::size_t> sources = images.sources();
  std::vector<float> patches, covered(values.size(), 0.0f);
  for (const std::size_t source : sources) {
    patches.push_back(values[source]);
    covered[source] = values[source];
  }
  ASSERT_EQ(patches.size(), images.patch_count());
  with_pack_size<T>(patch_pack_extent(images.geometry(), images.channels), [&]<int n>(std::integral_constant<int, n>) {
    if constexpr (sizeof(T) == 2) {
      EXPECT_EQ(n, images.pack);
    }
    const PatchTiling tiling = patch_tiling(images.geometry(), images.channels, n);
    const auto packs = static_cast<std::int64_t>(images.count()) / n;
    const std::vector<T> from = rounded<T>(values);
    for (const ThreadOrder order : orders) {
      std::vector<T> gathered = filled<T>(patches.size()), back = filled<T>(values.size());
      emulate(ForEachElement{GatherPatches<T, n>{tiling, from.data(), gathered.data()}, packs}, order);
      EXPECT_EQ(floats(gathered), patches);
      emulate(ForEachElement{ScatterPatches<T, n>{tiling, gathered.data(), back.data()}, packs}, order);
      EXPECT_EQ(floats(back), covered);
    }
  });
}

TEST(PatchKernels, CopyImagesToPatchesAndBackWithZerosBetween) {
  for (const Images& images : all_images) {
    SCOPED_TRACE(::testing::Message() << images.height << " x " << images.width << " by " << images.window);
    expect_copies<float>(images);
    expect_copies<Bf16>(images);
  }
}

}  // namespace
}  // namespace carillon::testing
