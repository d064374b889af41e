// GradientTiles: the gradients of all variables of a classifier_step, tile by tile, in the layout of a ParameterStore.
//
// TileKernel<Consumer> computes the tiles on a GPU and passes them to a consumer, which stores them or updates the
// variables with them:
//
//   struct Shared;                                       shared memory of a block
//   static constexpr int phases;                         of `run`, after the last `take`
//   void begin(Shared&, int thread) const;               before the first `take`, in an earlier phase
//   void take(Shared&, int thread, const TilePacks&) const;
//                                                        each pack of the flat array once
//   template <int phase>
//   void run(Shared&, int blocks, int block, int thread) const;
//
// Gaps of the flat array: a pack may end in a gap, with zeros there.
#pragma once

#include "kernels/dense_classifier/classifier_kernels.h"

namespace carillon {

/// Some packs of gradients, all of one thread, so that it can load what belongs to them at once.
struct TilePacks {
  static constexpr int count = 4;

  std::ptrdiff_t places[count];  ///< in the flat array; -1: no pack
  ClassifierPack gradients[count];

  CARILLON_HOST_DEVICE bool exists(int n) const { return places[n] >= 0; }
  CARILLON_HOST_DEVICE std::size_t place(int n) const { return static_cast<std::size_t>(places[n]); }
};

struct GradientTiles {
  static constexpr int threads = 128;
  static constexpr int rows = 32;  ///< of W1 per block
  static constexpr int columns = classifier_columns;
  static constexpr int lanes = classifier_lanes;
  static constexpr int row_quads = rows / classifier_pack;  ///< a thread computes a quad of rows of a pack of columns
  static_assert(threads == row_quads * lanes);
  /// Classes of one thread, in the tiles of W2. A thread has one row.
  static constexpr int thread_classes = ClassifierLimits::classes * columns / threads;

  static constexpr int weight_packs = rows * lanes;

  struct Shared {
    ClassifierPack wide[ClassifierLimits::batch][lanes];  ///< columns of dh, or of h for a tile of W2
    Pack<std::uint8_t, classifier_pack> images[ClassifierLimits::batch][row_quads];
    ClassifierPack gradients[weight_packs + lanes];  ///< of the weights; from weight_packs on, of the biases
  };

  StepTable table;
  ClassifierActivations of;
  std::size_t weights1 = 0, biases1 = 0, weights2 = 0, biases2 = 0;  ///< positions in the flat array

  /// The blocks of W2 come first.
  CARILLON_HOST_DEVICE int tiles_of_weights2() const { return column_tiles(of.hidden); }
  CARILLON_HOST_DEVICE int blocks() const {
    return tiles_of_weights2() + column_tiles(of.hidden) * ((of.inputs + rows - 1) / rows);
  }

  CARILLON_HOST_DEVICE void load_tile(Shared& shared, int block, int thread) const {
    const Tile tile = tile_of(block);
    const float* const source = tile.is_of_weights2 ? of.h : of.dh;
    for (int i = thread; i < of.batch * lanes; i += threads) {
      const int sample = i / lanes, column = tile.column + i % lanes * classifier_pack;
      shared.wide[sample][i % lanes] =
          column < of.hidden ? load<classifier_pack>(source + static_cast<std::size_t>(sample) * of.hidden + column)
                             : ClassifierPack{};
    }
    if (tile.is_of_weights2) return;
    constexpr int loads = ClassifierLimits::batch * row_quads / threads;
    Pack<std::uint8_t, classifier_pack> pixels[loads];
    const auto place_of = [&](int n) {
      const int i = thread + n * threads;
      return PixelPlace{i / row_quads, tile.row + i % row_quads * classifier_pack};
    };
    load_pixels(table, of, place_of, pixels);
    CARILLON_UNROLL
    for (int n = 0; n < loads; ++n) {
      const int i = thread + n * threads;
      shared.images[i / row_quads][i % row_quads] = pixels[n];
    }
  }

  CARILLON_HOST_DEVICE void compute_tile(Shared& shared, int block, int thread) const {
    const Tile tile = tile_of(block);
    if (tile.is_of_weights2) {
      multiply_hidden(shared, tile, thread);
    } else {
      multiply_images(shared, thread);
      if (tile.row == 0 && thread < lanes) shared.gradients[weight_packs + thread] = sum_of_columns(shared, thread);
    }
  }

  /// Calls take(packs) until it has passed each pack of this thread.
  template <typename Take>
  CARILLON_HOST_DEVICE void for_each_pack(const Shared& shared, int block, int thread, const Take& take) const {
    const Tile tile = tile_of(block);
    for (int first = thread; first < weight_packs + lanes; first += TilePacks::count * threads) {
      TilePacks packs;
      CARILLON_UNROLL
      for (int n = 0; n < TilePacks::count; ++n) {
        const int i = first + n * threads;
        packs.places[n] = i < weight_packs + lanes ? place_of(tile, i) : -1;
        if (packs.exists(n)) packs.gradients[n] = shared.gradients[i];
      }
      take(packs);
    }
  }

 private:
  struct Tile {
    bool is_of_weights2 = false;
    int row = 0, column = 0;  ///< the first of W1; `column` is also the first row of W2
  };

  CARILLON_HOST_DEVICE Tile tile_of(int block) const {
    const int tiles = column_tiles(of.hidden);
    const int row_tile = block / tiles - 1;  // -1: W2
    return {row_tile < 0, row_tile * rows, block % tiles * columns};
  }

  /// Position of Shared::gradients[i] in the flat array. -1: none, beyond the variable's end.
  CARILLON_HOST_DEVICE std::ptrdiff_t place_of(const Tile& tile, int i) const {
    const int bias = (i - weight_packs) * classifier_pack;  // negative: weights
    if (tile.is_of_weights2) {
      if (bias >= 0) return tile.column == 0 && bias < of.classes ? of_array(biases2, bias) : -1;
      const int rows_end = tile.column + columns < of.hidden ? tile.column + columns : of.hidden;
      const int place = tile.column * of.classes + i * classifier_pack;
      return place < rows_end * of.classes ? of_array(weights2, place) : -1;
    }
    const int row = tile.row + i / lanes, column = tile.column + i % lanes * classifier_pack;
    if (column >= of.hidden) return -1;
    if (bias >= 0) return tile.row == 0 ? of_array(biases1, column) : -1;
    return row < of.inputs ? of_array(weights1, row * of.hidden + column) : -1;
  }
  CARILLON_HOST_DEVICE static std::ptrdiff_t of_array(std::size_t variable, int element) {
    return static_cast<std::ptrdiff_t>(variable) + element;
  }

  /// dW1 of the tile.
  CARILLON_HOST_DEVICE void multiply_images(Shared& shared, int thread) const {
    const int lane = thread % lanes, quad = thread / lanes;
    ClassifierPack sums[classifier_pack] = {};
    for (int sample = 0; sample < of.batch; ++sample) {
      const Pack<std::uint8_t, classifier_pack> pixels = shared.images[sample][quad];
      const ClassifierPack gradients = shared.wide[sample][lane];
      CARILLON_UNROLL
      for (int r = 0; r < classifier_pack; ++r) {
        const auto pixel = static_cast<float>(pixels.at[r]);
        CARILLON_UNROLL
        for (int c = 0; c < classifier_pack; ++c) sums[r].at[c] += pixel * gradients.at[c];
      }
    }
    CARILLON_UNROLL
    for (int r = 0; r < classifier_pack; ++r) {
      for (float& sum : sums[r].at) sum *= of.scale;
      shared.gradients[(quad * classifier_pack + r) * lanes + lane] = sums[r];
    }
  }

  /// dW2 of the tile, in the layout of W2, and db2.
  CARILLON_HOST_DEVICE void multiply_hidden(Shared& shared, const Tile& tile, int thread) const {
    constexpr int at_once = 16;  // samples that are loaded before the first product, because loads take long
    constexpr int packs = thread_classes / classifier_pack;
    const int row = thread % columns, first = thread / columns * thread_classes;
    if (tile.column + row >= of.hidden || first >= of.classes) return;
    ClassifierPack sums[packs] = {}, bias_sums[packs] = {};
    for (int start = 0; start < of.batch; start += at_once) {
      ClassifierPack dz[at_once][packs];
      CARILLON_UNROLL
      for (int i = 0; i < at_once; ++i) {
        if (start + i >= of.batch) continue;
        CARILLON_UNROLL
        for (int q = 0; q < packs; ++q) {
          dz[i][q] = load<classifier_pack>(logit_gradients(start + i) + first + q * classifier_pack);
        }
      }
      CARILLON_UNROLL
      for (int i = 0; i < at_once; ++i) {
        if (start + i >= of.batch) continue;
        const float h = element(shared.wide[start + i], row);
        CARILLON_UNROLL
        for (int q = 0; q < packs; ++q) {
          CARILLON_UNROLL
          for (int k = 0; k < classifier_pack; ++k) {
            sums[q].at[k] += h * dz[i][q].at[k];
            bias_sums[q].at[k] += dz[i][q].at[k];
          }
        }
      }
    }
    CARILLON_UNROLL
    for (int q = 0; q < packs; ++q) {
      CARILLON_UNROLL
      for (int k = 0; k < classifier_pack; ++k) {
        const int label = first + q * classifier_pack + k, place = row * of.classes + label;
        if (label < of.classes) shared.gradients[place / classifier_pack].at[place % classifier_pack] = sums[q].at[k];
      }
      if (tile.column == 0 && row == 0) shared.gradients[weight_packs + first / classifier_pack + q] = bias_sums[q];
    }
  }

  CARILLON_HOST_DEVICE ClassifierPack sum_of_columns(const Shared& shared, int lane) const {
    ClassifierPack sum = {};
    for (int sample = 0; sample < of.batch; ++sample) {
      const ClassifierPack gradients = shared.wide[sample][lane];
      for (int k = 0; k < classifier_pack; ++k) sum.at[k] += gradients.at[k];
    }
    return sum;
  }

  CARILLON_HOST_DEVICE const float* logit_gradients(int sample) const {
    return of.dz + sample * ClassifierLimits::classes;
  }
};

template <typename Consumer>
struct TileKernel {
  static constexpr int threads = GradientTiles::threads;
  static constexpr int load_phase = 0, compute_phase = 1, take_phase = 2, first_consumer_phase = 3;
  static constexpr int phases = first_consumer_phase + Consumer::phases;

  struct Shared {
    GradientTiles::Shared tile;
    typename Consumer::Shared consumer;
  };

  GradientTiles tiles;
  Consumer consumer;

  int blocks() const { return tiles.blocks(); }
  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    if constexpr (phase == load_phase) {
      tiles.load_tile(shared.tile, block, thread);
      consumer.begin(shared.consumer, thread);
    } else if constexpr (phase == compute_phase) {
      tiles.compute_tile(shared.tile, block, thread);
    } else if constexpr (phase == take_phase) {
      tiles.for_each_pack(shared.tile, block, thread,
                          [&](const TilePacks& packs) { consumer.take(shared.consumer, thread, packs); });
    } else {
      consumer.template run<phase - first_consumer_phase>(shared.consumer, tiles.blocks(), block, thread);
    }
  }
};

/// The consumer that stores the gradients.
struct StoreGradients {
  using Shared = NoShared;
  static constexpr int phases = 0;

  float* gradients = nullptr;  ///< the flat array

  CARILLON_HOST_DEVICE void begin(Shared& /*shared*/, int /*thread*/) const {}
  CARILLON_HOST_DEVICE void take(Shared& /*shared*/, int /*thread*/, const TilePacks& packs) const {
    CARILLON_UNROLL
    for (int n = 0; n < TilePacks::count; ++n) {
      if (packs.exists(n)) store(packs.gradients[n], gradients + packs.place(n));
    }
  }
};

}  // namespace carillon
