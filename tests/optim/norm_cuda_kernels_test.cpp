#include "src/optim/norm_kernels.h"
#include "tests/optim/update_kernels_fixture.h"

namespace carillon::testing {
namespace {

using NormKernels = UpdateKernels;

TEST_F(NormKernels, RatiosUseEachVariablesNormsInAnyOrder) {
  build({100, 2 * static_cast<std::int64_t>(NormChunk::max_count) + 1234, 1, 16, 33});
  for (const std::size_t i : {0u, 1u, 3u, 4u}) factors_[i].has_ratio = true;
  factors_[3].first_step = 5;
  std::fill_n(arrays_.gradients.begin() + static_cast<std::ptrdiff_t>(layout_->offset(4)), 33, 0.0f);
  factors_[4].l2 = 0.0f;
  const NormChunks all = norm_chunks(*layout_);
  ring_.put(0, {.scalars = {.at = {0.1f, 0.5f, -1.0f, 0.9f, 0.25f}}}, std::vector<std::uint32_t>{0});
  sums_[loss_sum] = 1.0f;
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending}) {
    std::vector<float> momentum(layout_->total()), ratios(specs_.size());
    std::vector<Squares> sums(all.chunks.size());
    emulate(NormKernel<Lars>{.chunks = all.chunks.data(),
                             .chunk_count = static_cast<int>(all.chunks.size()),
                             .gradients = arrays_.gradients.data(),
                             .values = arrays_.values.data(),
                             .slots = {momentum.data()},
                             .of_variable = factors_.data(),
                             .table = ring_.table(),
                             .end = {sums_.data(), ring_.progress()},
                             .sums = sums.data()},
            order);
    const RatioOfVariable<Lars> ratio{.ranges = all.of_variable.data(),
                                      .sums = sums.data(),
                                      .of_variable = factors_.data(),
                                      .table = ring_.table(),
                                      .ratios = ratios.data()};
    emulate(ForEachElement{ratio, static_cast<std::int64_t>(specs_.size())}, order);
    for (const std::size_t i : {0u, 1u}) {
      double w = 0.0, g = 0.0;
      for (std::size_t k = layout_->offset(static_cast<int>(i)), n = layout_->count(static_cast<int>(i)); n > 0;
           ++k, --n) {
        w += std::pow(arrays_.values[k], 2.0);
        g += std::pow(arrays_.gradients[k] + factors_[i].l2 * arrays_.values[k], 2.0);
      }
      EXPECT_NEAR(ratios[i], 0.25 * std::sqrt(w / g), 1e-5 * ratios[i]) << i;
    }
    EXPECT_EQ(ratios[2], 1.0f) << "of one that takes none";
    EXPECT_EQ(ratios[3], 1.0f) << "of a frozen one";
    EXPECT_EQ(ratios[4], 1.0f) << "without a gradient";
  }
}

TEST_F(NormKernels, NormsBringSlotsForwardOnlyWhereTheStepIsUpdated) {
  build({100, 33});
  factors_[1].end_step = 0;
  const NormChunks all = norm_chunks(*layout_);
  const OptimizerSettings lamb{.rule = "lamb", .learning_rate = constant_rate(0.1)};
  ring_.put(0, {.scalars = step_scalars(lamb, 0)}, std::vector<std::uint32_t>{0});
  for (const float loss : {std::numeric_limits<float>::quiet_NaN(), 1.0f}) {
    sums_[loss_sum] = loss;
    std::vector<float> m(layout_->total()), v(layout_->total());
    std::vector<Squares> sums(all.chunks.size());
    emulate(NormKernel<Lamb>{.chunks = all.chunks.data(),
                             .chunk_count = static_cast<int>(all.chunks.size()),
                             .gradients = arrays_.gradients.data(),
                             .values = arrays_.values.data(),
                             .slots = {m.data(), v.data()},
                             .of_variable = factors_.data(),
                             .table = ring_.table(),
                             .end = {sums_.data(), ring_.progress()},
                             .sums = sums.data()});
    EXPECT_EQ(m[layout_->offset(0)] != 0.0f, std::isfinite(loss));
    EXPECT_EQ(v[layout_->offset(0)] != 0.0f, std::isfinite(loss));
    EXPECT_EQ(m[layout_->offset(1)], 0.0f) << "of a frozen variable";
  }
}

}  // namespace
}  // namespace carillon::testing
