// The weights gradient of a convolution in bf16.
#include <omp.h>

#include <algorithm>

#include "kernels/conv2d/bf16_conv2d.h"
#include "kernels/conv2d/conv2d_passes_cpu.h"

namespace carillon {
namespace {

/// A product sums over pixels of dz in steps. A step sums over one pixel in two slices of 16 images each. The slices
/// are either two groups of images, or the upper and the lower half of the rows of one group. The code chooses the
/// division that leaves fewer products empty.
///
/// The left tiles of a step belong to neighbouring taps and to a set of blocks of 16 channels. The taps are in one row
/// of the filters or, if the filters have only one column, in this column. The right tiles of a step are a set of
/// panels of 16 filters: up to two panels for 1x1 filters, otherwise one.
///
/// dw is computed in parts. A part consists of some sets of channels and some sets of filters. The sums of a part stay
/// in the second-level cache. The division into parts and chunks does not depend on the number of threads. With many
/// threads, some threads may have no product.
class WeightsGradient final : public Conv2dPassCpu {
 public:
  WeightsGradient(CpuDevice& device, const Bf16WeightsGradient& task)
      : device_(device), task_(task), kernels_(bf16_tile_kernels(device.isa())) {
    divide_into_slices();
    phases_ = std::min(task.columns.stride, task.columns.window);
    positions_ = task.columns.output + (task.columns.window - 1) / task.columns.stride;
    dz_row_ = task.columns.output * tile_elements;
    line_taps_ = task.columns.window > 1 ? task.columns.window : task.rows.window;
    taps_per_product_ = even_part(line_taps_, TileProduct::most_left(1));
    panels_per_product_ = taps_per_product_ == 1 ? std::min<std::int64_t>(panels(), 2) : 1;
    blocks_per_product_ = even_part(channel_blocks(), TileProduct::most_left(panels_per_product_) / taps_per_product_);
    divide_into_parts();
    x_pixel_ = channel_sets_per_part_ * blocks_per_product_ * tile_elements;
    x_row_ = phases_ * positions_ * x_pixel_;
    strip_rows_ = slice_rows_;
    while (strip_rows_ > 1 && strip_bytes() > packed_cache_bytes) --strip_rows_;
    strip_rows_ = even_part(slice_rows_, strip_rows_);
    const std::int64_t fitting = std::max<std::int64_t>(packed_cache_bytes / strip_bytes(), 1);
    pairs_per_chunk_ = strip_rows_ == slice_rows_ ? even_part(slice_pairs_, fitting) : 1;
    dz_panel_ = pairs_per_chunk_ * strip_rows_ * dz_row_;
    WorkspaceLayout layout;
    x_ = layout.add(floats_of(pairs_per_chunk_ * x_rows() * x_row_));
    dz_ = layout.add(floats_of(filter_sets_per_part_ * panels_per_product_ * dz_panel_));
    sums_ = layout.add(tap_sets() * channel_sets_per_part_ * filter_sets_per_part_ * product_sums());
    device.reserve_workspace(layout.bytes());
  }

  void run() override {
    float* const workspace = static_cast<float*>(device_.workspace());
    Bf16* const x = reinterpret_cast<Bf16*>(workspace + x_);
    Bf16* const dz = reinterpret_cast<Bf16*>(workspace + dz_);
    float* const sums = workspace + sums_;
#pragma omp parallel num_threads(device_.thread_count())
    {
      const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
      kernels_.begin();
      for (std::int64_t channel_set = 0; channel_set < channel_sets(); channel_set += channel_sets_per_part_) {
        for (std::int64_t filter_set = 0; filter_set < filter_sets(); filter_set += filter_sets_per_part_) {
          const Part part{channel_set, std::min(channel_sets_per_part_, channel_sets() - channel_set), filter_set,
                          std::min(filter_sets_per_part_, filter_sets() - filter_set)};
          const ThreadShare mine(tap_sets() * part.channel_sets * part.filter_sets, thread, threads);
          for_chunks([&](const Chunk& chunk) {
            pack(part, chunk, thread, threads, x, dz);
#pragma omp barrier
            multiply(part, chunk, mine, x, dz, sums);
#pragma omp barrier
          });
          for (std::int64_t at = mine.first; at < mine.last; ++at) write(product_at(part, at), sums_of(sums, at));
        }
      }
      kernels_.end();
    }
  }

 private:
  /// A part of dw. A channel set has `blocks_per_product_` blocks, and a filter set has `panels_per_product_` panels.
  struct Part {
    std::int64_t first_channel_set, channel_sets, first_filter_set, filter_sets;
  };
  /// The pairs of slices that are packed together, and the rows of each slice of dz.
  struct Chunk {
    std::int64_t pair, pairs, first_row, last_row;
  };
  /// The taps of a product (numbered along the rows of the filters), its blocks of channels, and its panels.
  struct Product {
    std::int64_t tap, taps, block, blocks, panel, panels;
  };

  std::int64_t images() const { return task_.x.shape[0]; }
  std::int64_t groups() const { return ceil_divide(images(), tile_rows); }
  std::int64_t channels() const { return task_.x.shape[3]; }
  std::int64_t filters() const { return task_.dz.shape[3]; }
  std::int64_t channel_blocks() const { return ceil_divide(channels(), tile_rows); }
  std::int64_t channel_sets() const { return ceil_divide(channel_blocks(), blocks_per_product_); }
  std::int64_t panels() const { return ceil_divide(filters(), tile_rows); }
  std::int64_t filter_sets() const { return ceil_divide(panels(), panels_per_product_); }
  std::int64_t tap_sets_of_line() const { return ceil_divide(line_taps_, taps_per_product_); }
  std::int64_t tap_sets() const { return task_.rows.window * task_.columns.window / line_taps_ * tap_sets_of_line(); }
  std::int64_t product_sums() const {
    return taps_per_product_ * blocks_per_product_ * panels_per_product_ * tile_sums;
  }
  float* sums_of(float* sums, std::int64_t product) const { return sums + product * product_sums(); }
  std::int64_t x_rows() const { return (strip_rows_ - 1) * task_.rows.stride + task_.rows.window; }
  std::int64_t strip_bytes() const {
    return 2 * (x_rows() * x_row_ + strip_rows_ * filter_sets_per_part_ * panels_per_product_ * dz_row_);
  }

  void divide_into_slices() {
    const std::int64_t rows = task_.rows.output;
    const std::int64_t pairs_of_groups = ceil_divide(groups(), 2), half_of_rows = ceil_divide(rows, 2);
    slices_are_groups_ = pairs_of_groups * rows <= groups() * half_of_rows;
    slice_pairs_ = slices_are_groups_ ? pairs_of_groups : groups();
    slice_rows_ = slices_are_groups_ ? rows : half_of_rows;
  }
  std::int64_t group_of(std::int64_t pair, std::int64_t slice) const {
    return slices_are_groups_ ? 2 * pair + slice : pair;
  }
  /// Returns the row of dz that is row 0 of a slice.
  std::int64_t first_row_of(std::int64_t slice) const { return slices_are_groups_ ? 0 : slice * slice_rows_; }
  /// Returns the row of x that is the chunk's packed row `at` in a slice. A row outside of the image holds zeros.
  std::int64_t x_row_of(const Chunk& chunk, std::int64_t slice, std::int64_t at) const {
    return (chunk.first_row + first_row_of(slice)) * task_.rows.stride - task_.rows.before + at;
  }
  bool has_x_row(std::int64_t row) const { return row >= 0 && row < task_.rows.input; }
  /// True if products read the chunk's packed row `at`. The products of one-column filters span several rows, so they
  /// also read rows of zeros.
  bool reads_x_row(const Chunk& chunk, std::int64_t at) const {
    const bool has_any = has_x_row(x_row_of(chunk, 0, at)) || has_x_row(x_row_of(chunk, 1, at));
    return at % task_.rows.stride < task_.rows.window && (has_any || task_.columns.window == 1);
  }

  /// Chooses the parts for which packing takes the least time. x is packed once for each part of the filters, and dz
  /// once for each part of the channels. Packing an element of x takes twice as long as packing an element of dz. Some
  /// rows belong to two neighbouring strips and are packed twice; the estimate ignores this.
  void divide_into_parts() {
    const std::int64_t bytes_of_sets = tap_sets() * product_sums() * 4, fitting = part_bytes / bytes_of_sets;
    std::int64_t least = 0;
    for (std::int64_t channel_sets_of_part = channel_sets();;
         channel_sets_of_part = even_part(channel_sets(), channel_sets_of_part - 1)) {
      const std::int64_t filter_sets_of_part =
          even_part(filter_sets(), std::clamp<std::int64_t>(fitting / channel_sets_of_part, 1, filter_sets()));
      const std::int64_t work = 2 * ceil_divide(filter_sets(), filter_sets_of_part) * packed_for_each(task_.rows) *
                                    packed_for_each(task_.columns) * channels() +
                                ceil_divide(channel_sets(), channel_sets_of_part) * filters();
      const bool fits = channel_sets_of_part * filter_sets_of_part <= fitting || channel_sets_of_part == 1;
      if (fits && (least == 0 || work < least)) {
        least = work;
        channel_sets_per_part_ = channel_sets_of_part;
        filter_sets_per_part_ = filter_sets_of_part;
      }
      if (channel_sets_of_part == 1) break;
    }
  }

  /// Returns the number of rows (or columns) of x that are packed for each row (or column) of dz.
  static std::int64_t packed_for_each(const SlidingWindow& window) { return std::min(window.stride, window.window); }

  template <typename Body>
  void for_chunks(const Body& body) const {
    for (std::int64_t pair = 0; pair < slice_pairs_; pair += pairs_per_chunk_) {
      for (std::int64_t row = 0; row < slice_rows_; row += strip_rows_) {
        body(Chunk{pair, std::min(pairs_per_chunk_, slice_pairs_ - pair), row,
                   std::min(row + strip_rows_, slice_rows_)});
      }
    }
  }

  /// Returns product number `at` of a part. The set of filters varies fastest.
  Product product_at(const Part& part, std::int64_t at) const {
    const std::int64_t set = at / part.filter_sets, taps = set / part.channel_sets;
    const std::int64_t first = taps % tap_sets_of_line() * taps_per_product_;
    Product product{.tap = taps / tap_sets_of_line() * line_taps_ + first,
                    .taps = std::min(taps_per_product_, line_taps_ - first),
                    .block = (part.first_channel_set + set % part.channel_sets) * blocks_per_product_,
                    .panel = (part.first_filter_set + at % part.filter_sets) * panels_per_product_};
    product.blocks = std::min(blocks_per_product_, channel_blocks() - product.block);
    product.panels = std::min(panels_per_product_, panels() - product.panel);
    return product;
  }

  /// Packs a thread's share of the chunk's rows: first the rows of x, then the rows of dz.
  void pack(const Part& part, const Chunk& chunk, int thread, int threads, Bf16* x, Bf16* dz) const {
    const std::int64_t of_x = chunk.pairs * x_rows();
    const ThreadShare mine(of_x + chunk.pairs * strip_rows_, thread, threads);
    for (std::int64_t i = mine.first; i < mine.last; ++i) {
      if (i < of_x) {
        pack_x(part, chunk, i / x_rows(), i % x_rows(), x + i * x_row_);
        continue;
      }
      const std::int64_t at = i - of_x, pair = chunk.pair + at / strip_rows_, row = chunk.first_row + at % strip_rows_;
      if (row >= chunk.last_row) continue;
      for (std::int64_t slice = 0; slice < 2; ++slice) {
        pack_dz(part, group_of(pair, slice), row + first_row_of(slice), dz + at * dz_row_ + slice * half_tile);
      }
    }
  }

  /// Packs row `at` of x, for the part's channels: [column % stride][column / stride][channel][slice][16 images].
  void pack_x(const Part& part, const Chunk& chunk, std::int64_t pair, std::int64_t at, Bf16* to) const {
    const SlidingWindow& columns = task_.columns;
    if (!reads_x_row(chunk, at)) return;
    const std::int64_t set_channels = blocks_per_product_ * tile_rows,
                       first_channel = part.first_channel_set * set_channels;
    const std::int64_t count = std::min(part.channel_sets * set_channels, channels() - first_channel);
    const std::int64_t image = task_.rows.input * columns.input * channels();
    const Bf16* rows[2];
    std::int64_t counts[2];  // number of images in each slice
    for (std::int64_t slice = 0; slice < 2; ++slice) {
      const std::int64_t group = group_of(chunk.pair + pair, slice), row = x_row_of(chunk, slice, at);
      const bool exists = has_x_row(row) && group < groups();
      rows[slice] = static_cast<const Bf16*>(task_.x.data) +
                    (exists ? group * tile_rows * image + row * columns.input * channels() : 0) + first_channel;
      counts[slice] = exists ? images_of_group(group, images()) : 0;
    }
    for (std::int64_t phase = 0; phase < phases_; ++phase) {
      for (std::int64_t position = 0; position < positions_; ++position, to += x_pixel_) {
        const std::int64_t column = position * columns.stride + phase - columns.before;
        const bool is_inside = column >= 0 && column < columns.input;
        for (std::int64_t slice = 0; slice < 2; ++slice) {
          kernels_.pack_transposed(
              {rows[slice] + (is_inside ? column : 0) * channels(), image, is_inside ? counts[slice] : 0}, count,
              to + slice * tile_rows, tile_depth);
        }
      }
    }
  }

  /// Packs a slice of a row of dz: [column][8 pairs of images][16 filters][2] for each panel of the part.
  void pack_dz(const Part& part, std::int64_t group, std::int64_t row, Bf16* to) const {
    const std::int64_t width = task_.columns.output, image = task_.rows.output * width * filters();
    const std::int64_t set_filters = panels_per_product_ * tile_rows, filter = part.first_filter_set * set_filters;
    const std::int64_t count = std::min(part.filter_sets * set_filters, filters() - filter);
    const bool has_row = group < groups() && row < task_.rows.output;
    const Bf16* const from = static_cast<const Bf16*>(task_.dz.data) +
                             (has_row ? group * tile_rows * image + row * width * filters() : 0) + filter;
    for (std::int64_t column = 0; column < width; ++column) {
      const TileSource<Bf16> source{from + column * filters(), image, has_row ? images_of_group(group, images()) : 0};
      kernels_.pack_right(source, count, to + column * tile_elements, dz_panel_);
    }
  }

  /// Lists the tiles that a product multiplies in each of its steps in a chunk.
  void list_tiles(const Part& part, const Chunk& chunk, const Product& product, const Bf16* x, TileList& list) const {
    const SlidingWindow& columns = task_.columns;
    std::int64_t lefts[TileProduct::most_left(1)];  // offsets of a step's left tiles from its first x pixel
    std::int64_t count = 0;
    for (std::int64_t m = 0; m < product.blocks; ++m) {
      for (std::int64_t tap = product.tap; tap < product.tap + product.taps; ++tap) {
        const std::int64_t row = tap / columns.window, column = tap % columns.window;
        const std::int64_t position = column % columns.stride * positions_ + column / columns.stride;
        lefts[count++] = row * x_row_ + position * x_pixel_ + m * tile_elements;
      }
    }
    const Bf16* const first = x + (product.block - part.first_channel_set * blocks_per_product_) * tile_elements;
    list.clear();
    for (std::int64_t pair = 0; pair < chunk.pairs; ++pair) {
      for (std::int64_t row = 0; row < chunk.last_row - chunk.first_row; ++row) {
        const std::int64_t x_row = row * task_.rows.stride + product.tap / columns.window;
        if (!reads_x_row(chunk, x_row)) continue;
        const Bf16* const from = first + (pair * x_rows() + row * task_.rows.stride) * x_row_;
        const std::int64_t dz_row = (pair * strip_rows_ + row) * dz_row_;
        for (std::int64_t column = 0; column < columns.output; ++column) {
          for (std::int64_t i = 0; i < count; ++i) list.left.push_back(from + lefts[i] + column * x_pixel_);
          list.right.push_back(dz_row + column * tile_elements);
        }
      }
    }
  }

  /// Computes the chunk's terms of the products in `mine`, and adds them to the sums of these products. The first chunk
  /// overwrites the sums.
  void multiply(const Part& part, const Chunk& chunk, const ThreadShare& mine, const Bf16* x, const Bf16* dz,
                float* sums) const {
    thread_local TileList list;
    for (std::int64_t at = mine.first; at < mine.last; ++at) {
      const Product of = product_at(part, at);
      // The number of the panel within the part.
      const std::int64_t panel = of.panel - part.first_filter_set * panels_per_product_;
      if (at == mine.first || panel == 0) list_tiles(part, chunk, of, x, list);
      TileProduct product = list.product(static_cast<int>(of.blocks * of.taps));
      product.panels = static_cast<int>(of.panels);
      product.panel_stride = dz_panel_;
      product.right = dz + panel * dz_panel_;
      product.sums = sums_of(sums, at);
      product.add = chunk.pair > 0 || chunk.first_row > 0;
      kernels_.multiply(product);
    }
  }

  /// Writes the sums of a product to dw.
  void write(const Product& product, const float* sums) const {
    const std::int64_t filter = product.panel * tile_rows;
    for (std::int64_t m = 0; m < product.blocks; ++m) {
      const std::int64_t channel = (product.block + m) * tile_rows;
      for (std::int64_t j = 0; j < product.taps; ++j, sums += product.panels * tile_sums) {
        float* const to = task_.dw.floats().data() + ((product.tap + j) * channels() + channel) * filters() + filter;
        kernels_.write_sums(sums, {to, filters(), std::min(tile_rows, channels() - channel),
                                   std::min(product.panels * tile_rows, filters() - filter)});
      }
    }
  }

  /// The number of bytes of a core's second-level cache that the sums of a part of dw may use.
  static constexpr std::int64_t part_bytes = std::int64_t{640} << 10;

  CpuDevice& device_;
  Bf16WeightsGradient task_;
  const Bf16TileKernels& kernels_;
  bool slices_are_groups_;
  std::int64_t slice_pairs_, slice_rows_;  ///< slice_rows_: number of rows of dz in a slice
  std::int64_t phases_, positions_;        ///< number of remainders that the columns of x have modulo the stride;
                                           ///< number of columns per remainder
  std::int64_t x_pixel_, x_row_;           ///< number of elements of a pixel and of a row of packed x
  std::int64_t dz_row_;                    ///< number of elements of a row of packed dz, for one panel
  std::int64_t line_taps_;                 ///< number of taps of a row of the filters; if the filters have only one
                                           ///< column, number of taps of this column
  std::int64_t taps_per_product_, blocks_per_product_, panels_per_product_;
  std::int64_t channel_sets_per_part_, filter_sets_per_part_;
  std::int64_t strip_rows_;       ///< number of rows of a slice of dz in a chunk
  std::int64_t pairs_per_chunk_;  ///< number of pairs of slices in a chunk
  std::int64_t dz_panel_;         ///< number of elements of a panel of packed dz, for all rows of a chunk
  std::size_t x_, dz_, sums_;     ///< offsets in the workspace, in floats
};

}  // namespace

std::unique_ptr<Conv2dPassCpu> make_bf16_pass(CpuDevice& device, const Bf16WeightsGradient& task) {
  return std::make_unique<WeightsGradient>(device, task);
}

}  // namespace carillon
