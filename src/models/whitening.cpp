#include "src/models/layers.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "kernels/image_input/image_input_kernels.h"

namespace carillon {
namespace {

/// All patches of one image, [patch, component].
class ImagePatches {
 public:
  explicit ImagePatches(const WhiteningParams& params)
      : map_(params.input),
        kernel_(static_cast<std::int32_t>(params.kernel)),
        rows_(map_.height - kernel_ + 1),
        columns_(map_.width - kernel_ + 1) {
    check(rows_ > 0 && columns_ > 0, "whitening requires images that are at least as large as a patch");
    values_.resize(static_cast<std::size_t>(rows_) * static_cast<std::size_t>(columns_) * component_count());
  }

  std::size_t component_count() const { return static_cast<std::size_t>(kernel_ * kernel_ * map_.channels); }
  std::size_t patch_count() const { return values_.size() / component_count(); }
  const double* values() const { return values_.data(); }

  void take(const std::uint8_t* image) {
    double* next = values_.data();
    for (std::int32_t y = 0; y < rows_; ++y) {
      for (std::int32_t x = 0; x < columns_; ++x) {
        for (std::int32_t i = 0; i < kernel_ * kernel_; ++i) {
          const std::int32_t pixel = (y + i / kernel_) * map_.width + x + i % kernel_;
          for (std::int32_t c = 0; c < map_.channels; ++c) {
            *next++ = map_.fixed.value(c, image[pixel * map_.channels + c]);
          }
        }
      }
    }
  }

 private:
  ImageInputMap map_;
  std::int32_t kernel_, rows_, columns_;
  std::vector<double> values_;  ///< [patch, component]
};

/// Adds P^T P of `count` patches with `size` components each to `sums`.
CARILLON_SIMD void add_products(const double* __restrict patches, std::size_t count, std::size_t size,
                                double* __restrict sums) {
  for (std::size_t number = 0; number < count; ++number, patches += size) {
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t j = 0; j < size; ++j) sums[i * size + j] += patches[i] * patches[j];
    }
  }
}

Eigen::VectorXd with_settled_sign(const Eigen::VectorXd& vector) {
  const double half = vector.cwiseAbs().maxCoeff() / 2.0;
  for (const double component : vector) {
    if (std::abs(component) >= half) return component < 0.0 ? Eigen::VectorXd(-vector) : vector;
  }
  return vector;
}

}  // namespace

std::vector<double> patch_covariance(std::span<const std::uint8_t* const> images, const WhiteningParams& params) {
  check(!images.empty(), "whitening requires at least one image");
  constexpr std::size_t block_images = 100;  // blocks of fixed size, so that the sums do not depend on the thread count
  const ImagePatches form(params);
  const std::size_t p = form.component_count(), block_count = (images.size() + block_images - 1) / block_images;
  std::vector<std::vector<double>> of_blocks(block_count, std::vector<double>(p * p));
  parallel_items(block_count, block_images * form.patch_count() * p, elementwise_grain,
                 [&](std::size_t first, std::size_t last) {
                   ImagePatches patches = form;
                   for (std::size_t i = first * block_images; i < std::min(last * block_images, images.size()); ++i) {
                     patches.take(images[i]);
                     add_products(patches.values(), patches.patch_count(), p, of_blocks[i / block_images].data());
                   }
                 });
  std::vector<double> covariance(p * p);
  for (const std::vector<double>& block : of_blocks) {
    for (std::size_t i = 0; i < p * p; ++i) covariance[i] += block[i];
  }
  for (double& value : covariance) value /= static_cast<double>(images.size() * form.patch_count());
  return covariance;
}

std::vector<float> whitening_filters(const std::vector<double>& covariance, double epsilon) {
  check(std::ranges::all_of(covariance, [](double value) { return std::isfinite(value); }),
        "whitening requires a finite covariance matrix");
  const auto p = static_cast<Eigen::Index>(std::lround(std::sqrt(static_cast<double>(covariance.size()))));
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solved(
      Eigen::Map<const Eigen::MatrixXd>(covariance.data(), p, p));
  check(solved.info() == Eigen::Success, "whitening: the eigenvector computation failed");
  std::vector<float> filters(covariance.size() * 2);
  for (Eigen::Index i = 0; i < p; ++i) {
    const Eigen::Index from_largest = p - 1 - i;
    const Eigen::VectorXd filter = with_settled_sign(solved.eigenvectors().col(from_largest)) /
                                   std::sqrt(solved.eigenvalues()[from_largest] + epsilon);
    for (Eigen::Index k = 0; k < p; ++k) {
      filters[static_cast<std::size_t>(k * 2 * p + i)] = static_cast<float>(filter[k]);
      filters[static_cast<std::size_t>(k * 2 * p + p + i)] = static_cast<float>(-filter[k]);
    }
  }
  return filters;
}

}  // namespace carillon
