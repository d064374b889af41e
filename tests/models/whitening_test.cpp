#include "src/models/layers.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>

#include "carillon/core/error.h"
#include "carillon/models/networks.h"
#include "tests/support/networks.h"
#include "tests/support/pytorch_ops.h"

namespace carillon::testing {
namespace {

const WhiteningParams params{
    .input = {
        .sample = {7, 6, 3}, .values = PixelValues::normalized, .mean = cifar10_mean, .deviation = cifar10_deviation}};

/// Returns the images for which make_pytorch_ops.py computes the whitening filters.
std::vector<std::vector<std::uint8_t>> patterned_images(int count = 20) {
  std::vector<std::vector<std::uint8_t>> images(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    for (int y = 0; y < 7; ++y) {
      for (int x = 0; x < 6; ++x) {
        for (int c = 0; c < 3; ++c) {
          images[i].push_back(static_cast<std::uint8_t>(
              (x * (3 + i) + y * (5 + 2 * i) + 40 * c + (x * y * (i + 1) + c * (i % 3)) % 37 * 4) % 256));
        }
      }
    }
  }
  return images;
}

std::vector<const std::uint8_t*> pointers(const std::vector<std::vector<std::uint8_t>>& images) {
  std::vector<const std::uint8_t*> found;
  for (const auto& image : images) found.push_back(image.data());
  return found;
}

TEST(Whitening, FiltersArePyTorchs) {
  const auto images = patterned_images();
  expect_as_pytorch(whitening_filters(patch_covariance(pointers(images), params), 5e-4), "whitening/filters", 1e-5);
}

/// F: the first half of the filters; C: the covariance of the patches. With a tiny epsilon, F^T C F must be the
/// identity.
TEST(Whitening, MakesPatchesUncorrelatedAndOfVarianceOne) {
  const auto images = patterned_images();
  const std::vector<double> covariance = patch_covariance(pointers(images), params);
  const std::vector<float> filters = whitening_filters(covariance, 1e-12);
  for (std::size_t a = 0; a < 12; ++a) {
    for (std::size_t b = 0; b < 12; ++b) {
      double sum = 0.0;
      for (std::size_t i = 0; i < 12; ++i) {
        for (std::size_t j = 0; j < 12; ++j) sum += filters[i * 24 + a] * covariance[i * 12 + j] * filters[j * 24 + b];
      }
      EXPECT_NEAR(sum, a == b ? 1.0 : 0.0, 1e-4) << a << ", " << b;
    }
  }
}

TEST(Whitening, AnyNumberOfThreadsSumsInTheSameOrder) {
  const auto images = patterned_images(750);
  const auto covariance_by = [&](int threads) {
    omp_set_num_threads(threads);
    return patch_covariance(pointers(images), params);
  };
  const std::vector<double> alone = covariance_by(1);
  for (const int threads : {2, 3, 7}) EXPECT_EQ(covariance_by(threads), alone) << threads;
  omp_set_num_threads(1);
}

TEST(Whitening, TheSignsOfEigenvectorsAreSettled) {
  // The eigenvector for the eigenvalue 3 is (1, -1) / sqrt(2); for the eigenvalue 1, it is (1, 1) / sqrt(2). Each
  // eigenvector has the sign that makes its first component positive.
  const float a = 1.0f / std::sqrt(6.0f), b = 1.0f / std::sqrt(2.0f);
  const std::vector<float> filters = whitening_filters({2.0, -1.0, -1.0, 2.0}, 1e-12);
  const std::vector<float> expected{a, b, -a, -b, -a, b, a, -b};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(filters[i], expected[i], 1e-6) << i;
}

TEST(Whitening, OfAirbenchTakesTheNetworksImages) {
  for (const Network& network : {airbench94_network(cifar10_images()), airbench96_network(cifar10_images())}) {
    ASSERT_EQ(network.values_of_data.size(), 1u);
    const ValuesOfData& wanted = network.values_of_data.front();
    EXPECT_EQ(wanted.variable, "whiten/weights");
    EXPECT_EQ(wanted.max_records, 5000);
    const std::vector<std::uint8_t> image(3072, 200), other(3072, 10);
    const std::uint8_t* const images[] = {image.data(), other.data()};
    const std::vector<float> filters = wanted.compute(images);
    EXPECT_EQ(filters.size(), 288u);
    // All patches of an image are equal. So the covariance has rank 2, and the last filters have the length 1 /
    // sqrt(epsilon).
    double squares = 0.0;
    for (std::size_t i = 0; i < 12; ++i) squares += filters[i * 24 + 11] * filters[i * 24 + 11];
    EXPECT_NEAR(squares, 1.0 / 5e-4, 1.0);
  }
}

TEST(Whitening, RefusesWhatHasNoPatches) {
  EXPECT_THROW(patch_covariance({}, params), Error);
  const std::uint8_t image[9] = {};
  const std::uint8_t* const images[] = {image};
  EXPECT_THROW(patch_covariance(images, {.input = {.sample = {1, 3, 3}}}), Error);
  EXPECT_THROW(whitening_filters({1.0, 0.0, 0.0, NAN}, 1e-3), Error);
}

}  // namespace
}  // namespace carillon::testing
