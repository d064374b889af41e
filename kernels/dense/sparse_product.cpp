#include "kernels/dense/sparse_product.h"

#include <omp.h>

#include <algorithm>
#include <cmath>

#include "carillon/core/parallel.h"
#include "kernels/shared/backend.h"

namespace carillon {

CARILLON_DECLARE_FOR_ISAS(const SparseProductKernels& sparse_product_kernels())

const SparseProductKernels& sparse_product_kernels(Isa isa) {
  return *for_isa(
      isa, [] { return &plain::sparse_product_kernels(); }, [] { return &avx2::sparse_product_kernels(); },
      [] { return &avx512::sparse_product_kernels(); });
}

namespace {

/// Divides the steps into nearly equal pieces.
StepLists cut_into_pieces(std::int64_t steps, const SparseProductKernels& kernels) {
  const std::int64_t least_pieces = ceil_divide(steps, kernels.max_piece_steps);
  const std::int64_t piece_steps = ceil_divide(ceil_divide(steps, least_pieces), kernels.lanes) * kernels.lanes;
  return {.steps = nullptr,
          .counts = nullptr,
          .pieces = ceil_divide(steps, piece_steps),
          .piece_steps = piece_steps,
          .stride = piece_steps + kernels.lanes};
}

}  // namespace

bool sparse_product_pays(Isa isa, float density, std::int64_t out) {
  const SparseProductKernels& kernels = sparse_product_kernels(isa);
  // The fraction of the steps that a block processes if zeros are independent. In images, zeros are adjacent, so the
  // true fraction is smaller.
  const double share = 1.0 - std::pow(1.0 - density, kernels.block_rows);
  return share <= kernels.max_share && out >= kernels.panel_columns;
}

SparseProductPass::SparseProductPass(CpuDevice& device, const Task& task)
    : device_(device), transposed_(task.transposed), kernels_(sparse_product_kernels(device.isa())) {
  const std::int64_t columns = task.c.shape.extents().back();
  const std::int64_t rows = task.c.shape.element_count() / columns, steps = task.b.shape.element_count() / columns;
  product_ = {.a = {.data = task.a.floats().data(),
                    .rows = rows,
                    .steps = steps,
                    .row_stride = transposed_ ? 1 : steps,
                    .step_stride = transposed_ ? rows : 1},
              .lists = cut_into_pieces(steps, kernels_),
              .b = task.b.floats().data(),
              .bias = task.bias ? task.bias.floats().data() : nullptr,
              .c = task.c.floats().data(),
              .columns = columns,
              .relu = task.relu};
  blocks_ = ceil_divide(rows, kernels_.block_rows);
  panels_ = ceil_divide(columns, kernels_.panel_columns);
  const std::int64_t numbers = blocks_ * product_.lists.pieces * (1 + product_.lists.stride);
  device.reserve_workspace(static_cast<std::size_t>(numbers) * sizeof(std::int32_t));
}

void SparseProductPass::run() const {
  SparseProduct product = product_;
  product.lists.counts = static_cast<std::int32_t*>(device_.workspace());
  product.lists.steps = product.lists.counts + blocks_ * product.lists.pieces;
  const auto make_lists = transposed_ ? kernels_.list_steps_transposed : kernels_.list_steps;
#pragma omp parallel num_threads(device_.thread_count())
  {
    const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
    const ThreadShare own_lists(blocks_, thread, threads);
    make_lists(product.a, own_lists.first, own_lists.last, product.lists);
#pragma omp barrier
    // The work is divided panel by panel, so that only few parts of b are read by several threads.
    const ThreadShare own(panels_ * blocks_, thread, threads);
    for (std::int64_t at = own.first; at < own.last;) {
      const std::int64_t panel = at / blocks_, block = at % blocks_;
      const std::int64_t last = std::min(blocks_, block + own.last - at);
      kernels_.multiply(product, panel, block, last);
      at += last - block;
    }
  }
}

}  // namespace carillon
