// Computes a convolution in bf16, or its data gradient.
#include <omp.h>

#include <algorithm>

#include "kernels/conv2d/bf16_conv2d.h"
#include "kernels/conv2d/conv2d_passes_cpu.h"

namespace carillon {
namespace {

alignas(64) constexpr Bf16 zero_tile[tile_elements] = {};

/// The weights are packed as panels. A panel consists of the right tiles for 16 channels of the result, all taps and
/// all source channels.
class Convolution final : public Conv2dPassCpu {
 public:
  Convolution(CpuDevice& device, const Bf16Convolution& task)
      : device_(device), task_(task), kernels_(bf16_tile_kernels(device.isa())) {
    const std::int64_t threads = device.thread_count();
    const std::int64_t in_phase = ceil_divide(task.columns.target, task.columns.period());
    panels_per_product_ = std::min<std::int64_t>(panels(), 2);
    // The left tiles of a product share its right tiles. The left tiles are neighbouring pixels, or groups of images at
    // the same pixel.
    const std::int64_t most = TileProduct::most_left(panels_per_product_);
    groups_per_strip_ = in_phase <= 4 ? even_part(groups(), most_groups) : 1;
    groups_per_product_ = even_part(groups_per_strip_, most);
    pixels_per_product_ = groups_per_strip_ > 1 ? 1 : even_part(in_phase, most);
    const std::int64_t row_bytes = groups_per_strip_ * depth_blocks() * task.columns.source * tile_elements * 2;
    strip_rows_ = task.rows.target;
    const std::int64_t least = ceil_divide(task.rows.window, task.rows.stride);  // with fewer target rows, most source
                                                                                 // rows would be packed twice
    while (strip_rows_ > least && task.rows.most_sources(strip_rows_) * row_bytes > packed_cache_bytes) --strip_rows_;
    const std::int64_t for_each_thread = ceil_divide(threads, ceil_divide(groups(), groups_per_strip_));
    strip_rows_ = even_part(task.rows.target, std::min(strip_rows_, ceil_divide(task.rows.target, for_each_thread)));
    const std::int64_t items = ceil_divide(groups(), groups_per_strip_) * strips();
    const bool is_uneven = items % threads != 0 && items < 4 * threads;
    panel_parts_ = is_uneven ? std::min(threads, panel_groups()) : 1;
    plane_ = task.rows.most_sources(strip_rows_) * task.columns.source * tile_elements;
    panel_ = depth_blocks() * taps() * tile_elements;
    const std::int64_t products_in_cache = packed_cache_bytes / (2 * panel_ * panels_per_product_);
    panels_in_cache_ = std::max<std::int64_t>(products_in_cache, 1) * panels_per_product_;
    const std::int64_t target_bytes = task.target.shape.element_count() * static_cast<std::int64_t>(sizeof(Bf16));
    // Non-temporal stores do not help a pass that accumulates, because such a pass also reads the target.
    non_temporal_ = !task.accumulate && target_bytes >= threads * non_temporal_bytes;
    cell_floats_ = static_cast<std::int64_t>(
        aligned_float_count(static_cast<std::size_t>(floats_of(groups_per_strip_ * group_cells()))));
    for (std::int64_t column = 0; column < task.columns.target; ++column) {
      for (std::int64_t tap = 0; tap < task.columns.window; ++tap) {
        column_sources_.push_back(task.columns.source_of(column, tap));
      }
    }
    WorkspaceLayout layout;
    weights_ = layout.add(floats_of(panels() * panel_));
    cells_ = layout.add(threads * cell_floats_);
    device.reserve_workspace(layout.bytes());
  }

  void run() override {
    float* const workspace = static_cast<float*>(device_.workspace());
#pragma omp parallel num_threads(device_.thread_count())
    {
      const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
      Bf16* const weights = reinterpret_cast<Bf16*>(workspace + weights_);
      const ThreadShare blocks(taps() * depth_blocks(), thread, threads);
      for (std::int64_t i = blocks.first; i < blocks.last; ++i)
        pack_weights(i / depth_blocks(), i % depth_blocks(), weights);
#pragma omp barrier
      Bf16* const cells = reinterpret_cast<Bf16*>(workspace + cells_ + static_cast<std::size_t>(thread * cell_floats_));
      kernels_.begin();
      const ThreadShare mine(ceil_divide(groups(), groups_per_strip_) * strips() * panel_parts_, thread, threads);
      for (std::int64_t i = mine.first; i < mine.last;) {
        const std::int64_t item = i / panel_parts_, next = std::min(mine.last, (item + 1) * panel_parts_);
        const auto panel_at = [&](std::int64_t part) {
          return std::min((part - item * panel_parts_) * panel_groups() / panel_parts_ * panels_per_product_, panels());
        };
        convolve(weights, cells, item / strips() * groups_per_strip_, item % strips() * strip_rows_,
                 {panel_at(i), panel_at(next)});
        i = next;
      }
      kernels_.end();
    }
  }

 private:
  std::int64_t images() const { return task_.source.shape[0]; }
  std::int64_t groups() const { return ceil_divide(images(), tile_rows); }
  std::int64_t depth() const { return task_.source.shape[3]; }
  std::int64_t outputs() const { return task_.target.shape[3]; }
  std::int64_t depth_blocks() const { return ceil_divide(depth(), tile_depth); }
  std::int64_t panels() const { return ceil_divide(outputs(), tile_rows); }
  std::int64_t panel_groups() const { return ceil_divide(panels(), panels_per_product_); }
  std::int64_t group_cells() const { return depth_blocks() * plane_; }  ///< elements of a group's cells in a strip
  std::int64_t taps() const { return task_.rows.window * task_.columns.window; }
  std::int64_t strips() const { return ceil_divide(task_.rows.target, strip_rows_); }

  /// Packs the right tiles of all panels for one tap and 32 of the source's channels: [panel][block][tap].
  void pack_weights(std::int64_t tap, std::int64_t block, Bf16* weights) const {
    Bf16* const to = weights + (block * taps() + tap) * tile_elements;
    const float* const filters = task_.filters.floats().data() + tap * depth() * outputs();
    const std::int64_t first = block * tile_depth, last = std::min(first + tile_depth, depth());
    if (!task_.rows.backward) {  // filters [tap][depth][outputs]
      for (std::int64_t half = 0; half < 2; ++half) {
        const std::int64_t row = std::min(first + half * tile_rows, last);
        const TileSource<float> source{filters + row * outputs(), outputs(), std::min(tile_rows, last - row)};
        kernels_.pack_right_floats(source, outputs(), to + half * half_tile, panel_);
      }
      return;
    }
    for (std::int64_t panel = 0; panel < panels(); ++panel) {  // filters [tap][outputs][depth]
      const std::int64_t row = panel * tile_rows;
      const TileSource<float> source{filters + row * depth() + first, depth(), std::min(tile_rows, outputs() - row)};
      kernels_.pack_left_floats(source, last - first, to + panel * panel_, tile_elements);
      kernels_.transpose_pairs(to + panel * panel_);
    }
  }

  /// Packs source rows [rows.first, rows.last) of `group_count` groups, starting at `first_group`, as cells
  /// [group][block][row][column].
  void pack_cells(std::int64_t first_group, std::int64_t group_count, const GatherAxis::Range& rows,
                  Bf16* cells) const {
    const std::int64_t height = task_.rows.source, width = task_.columns.source;
    for (std::int64_t g = 0; g < group_count; ++g) {
      const Bf16* const group =
          static_cast<const Bf16*>(task_.source.data) + (first_group + g) * tile_rows * height * width * depth();
      for (std::int64_t pixel = 0; pixel < rows.length() * width; ++pixel) {
        const TileSource<Bf16> source{group + (rows.first * width + pixel) * depth(), height * width * depth(),
                                      images_of_group(first_group + g, images())};
        kernels_.pack_left(source, depth(), cells + g * group_cells() + pixel * tile_elements, plane_);
      }
    }
  }

  /// The target pixels of a product. They are `columns` pixels of a row of one group (`column`, `column` + period,
  /// ...), or the same pixel of `groups` groups, starting at group number `group`.
  struct Pixels {
    std::int64_t group, groups, row, column, columns;
  };
  struct Panels {
    std::int64_t first, last;
  };

  /// Lists the left tiles of `pixels`. `cells`: the packed cells of group `pixels.group`, from source row `first_row`
  /// on.
  void list_tiles(const Pixels& pixels, std::int64_t first_row, const Bf16* cells, TileList& list) const {
    const GatherAxis &rows = task_.rows, &columns = task_.columns;
    list.right.clear();
    list.left.resize(static_cast<std::size_t>(depth_blocks() * taps() * pixels.columns * pixels.groups));
    const Bf16** left = list.left.data();
    for (std::int64_t block = 0; block < depth_blocks(); ++block) {
      for (std::int64_t i = 0; i < rows.window; ++i) {
        const std::int64_t source_row = rows.source_of(pixels.row, i);
        if (source_row < 0) continue;
        const Bf16* const cell_row = cells + block * plane_ + (source_row - first_row) * columns.source * tile_elements;
        for (std::int64_t j = 0; j < columns.window; ++j) {
          const Bf16** next = left;
          bool any = false;
          for (std::int64_t m = 0; m < pixels.columns; ++m) {
            const std::int64_t at = column_sources_[(pixels.column + m * columns.period()) * columns.window + j];
            any = any || at >= 0;
            for (std::int64_t g = 0; g < pixels.groups; ++g) {
              *next++ = at < 0 ? zero_tile : cell_row + g * group_cells() + at * tile_elements;
            }
          }
          if (!any) continue;
          left = next;
          list.right.push_back((block * taps() + i * columns.window + j) * tile_elements);
        }
      }
    }
  }

  void write(const float* sums, std::int64_t group, std::int64_t row, std::int64_t column, const Panels& some) const {
    const std::int64_t height = task_.rows.target, width = task_.columns.target, first = some.first * tile_rows;
    Bf16* const to = static_cast<Bf16*>(task_.target.data) +
                     ((group * tile_rows * height + row) * width + column) * outputs() + first;
    kernels_.write_rounded(sums,
                           {.bias = task_.bias ? task_.bias.floats().data() + first : nullptr,
                            .relu = task_.relu,
                            .accumulate = task_.accumulate,
                            .non_temporal = non_temporal_},
                           {to, height * width * outputs(), images_of_group(group, images()),
                            std::min(some.last * tile_rows, outputs()) - first});
  }

  /// Computes the channels of some panels for the target pixels `pixels`. `list`: the left tiles of `pixels`.
  void multiply(const Pixels& pixels, const TileList& list, const Bf16* weights, const Panels& some) const {
    if (task_.accumulate && list.right.empty()) return;  // these pixels read no source pixel
    alignas(64) float sums[TileProduct::most_sums * tile_sums];
    TileProduct product = list.product(static_cast<int>(pixels.columns * pixels.groups));
    product.sums = sums;
    product.panel_stride = panel_;
    for (Panels current{some.first, 0}; current.first < some.last; current.first = current.last) {
      current.last = std::min(current.first + panels_per_product_, some.last);
      product.right = weights + current.first * panel_;
      product.panels = static_cast<int>(current.last - current.first);
      kernels_.multiply(product);
      const float* from = sums;
      for (std::int64_t m = 0; m < pixels.columns; ++m) {
        for (std::int64_t g = 0; g < pixels.groups; ++g, from += product.panels * tile_sums) {
          write(from, pixels.group + g, pixels.row, pixels.column + m * task_.columns.period(), current);
        }
      }
    }
  }

  /// Computes some panels of a strip. A strip is some target rows of up to `groups_per_strip_` groups.
  void convolve(const Bf16* weights, Bf16* cells, std::int64_t group, std::int64_t first_row,
                const Panels& some) const {
    const std::int64_t last_row = std::min(first_row + strip_rows_, task_.rows.target);
    const std::int64_t last_group = std::min(group + groups_per_strip_, groups());
    const GatherAxis::Range sources = task_.rows.sources_of(first_row, last_row);
    pack_cells(group, last_group - group, sources, cells);
    thread_local TileList list;
    const std::int64_t period = task_.columns.period(), width = task_.columns.target;
    for (std::int64_t panel = some.first; panel < some.last; panel += panels_in_cache_) {
      const Panels in_cache{panel, std::min(panel + panels_in_cache_, some.last)};
      for (Pixels at{.row = first_row}; at.row < last_row; ++at.row) {
        for (at.group = group; at.group < last_group; at.group += groups_per_product_) {
          at.groups = std::min(groups_per_product_, last_group - at.group);
          for (std::int64_t phase = 0; phase < std::min(period, width); ++phase) {
            for (at.column = phase; at.column < width; at.column += pixels_per_product_ * period) {
              at.columns = std::min(pixels_per_product_, ceil_divide(width - at.column, period));
              list_tiles(at, sources.first, cells + (at.group - group) * group_cells(), list);
              multiply(at, list, weights, in_cache);
            }
          }
        }
      }
    }
  }

  /// The largest number of groups in a strip. If the weights exceed the cache, each strip reads the weights once.
  static constexpr std::int64_t most_groups = 6;
  /// If a target has at least this number of bytes for each thread, the target is written with non-temporal stores. A
  /// normal store would first read the cache line. After non-temporal stores, the next op reads the target from memory.
  /// Therefore a higher limit may be better for a large third-level cache (not measured). With a model of AMX on Zen 5
  /// and one thread, ResNet-50 is equally fast with limits of 1 to 8 MiB
  /// (docs/lab-notes/2026-11-28-less-traffic-to-memory.md).
  static constexpr std::int64_t non_temporal_bytes = std::int64_t{4} << 20;

  CpuDevice& device_;
  Bf16Convolution task_;
  const Bf16TileKernels& kernels_;
  std::int64_t groups_per_strip_;    ///< number of groups of 16 images that are packed together
  std::int64_t groups_per_product_;  ///< number of groups that share right tiles
  std::int64_t pixels_per_product_;  ///< number of pixels of a row that share right tiles
  std::int64_t panels_per_product_;  ///< number of panels that share left tiles: two, or one if there is only one panel
  std::int64_t strip_rows_;          ///< number of target rows of a strip; the cells are packed once per strip
  /// The number of parts into which threads divide the panels of a strip. This number is above 1 if otherwise some
  /// threads would get more strips than others.
  std::int64_t panel_parts_;
  std::int64_t plane_;            ///< number of elements of the cells of a strip, for 32 channels
  std::int64_t panel_;            ///< number of elements of the right tiles for 16 outputs
  std::int64_t panels_in_cache_;  ///< number of panels that are computed for all pixels of a strip before the next
                                  ///< panels
  bool non_temporal_;             ///< true: write the target with non-temporal stores
  std::int64_t cell_floats_;
  std::vector<std::int64_t> column_sources_;  ///< [target column][tap]: GatherAxis::source_of
  std::size_t weights_, cells_;               ///< offsets in the workspace, in floats; the cells are separate for each
                                              ///< thread
};

}  // namespace

std::unique_ptr<Conv2dPassCpu> make_bf16_pass(CpuDevice& device, const Bf16Convolution& task) {
  return std::make_unique<Convolution>(device, task);
}

}  // namespace carillon
