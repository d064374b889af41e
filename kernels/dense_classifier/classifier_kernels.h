// The kernels of classifier_step.h up to the gradients of the activations. All sums have a fixed order.
#pragma once

#include <cmath>

#include "carillon/graph/parameters.h"
#include "carillon/graph/step_inputs.h"
#include "kernels/elementwise/functions.h"
#include "kernels/shared/block_kernel.h"
#include "kernels/shared/pack.h"
#include "kernels/shared/unroll.h"

namespace carillon {

/// Largest extents that the kernels support.
struct ClassifierLimits {
  static constexpr int batch = 128, inputs = 1024, hidden = 1024, classes = 16;
  static constexpr int weights2 = 8192;  ///< hidden * classes
};

/// Neighbouring elements that a thread moves at once. Divides `inputs` and `hidden`.
inline constexpr int classifier_pack = 4;
using ClassifierPack = Pack<float, classifier_pack>;

/// Element i of an array of packs.
CARILLON_HOST_DEVICE inline float element(const ClassifierPack* packs, int i) {
  return packs[i / classifier_pack].at[i % classifier_pack];
}

/// Extents and activations that the kernels share, in device memory.
struct ClassifierActivations {
  int batch = 0, inputs = 0, hidden = 0, classes = 0;
  float scale = 1.0f;         ///< of the pixels
  float* products = nullptr;  ///< [chunks()][batch, hidden]: parts of x W1, by chunk of the inputs
  float* h = nullptr;         ///< [batch, hidden]
  float* dh = nullptr;        ///< [batch, hidden]
  float* dz = nullptr;        ///< [batch, ClassifierLimits::classes]; 0 in the columns that are no class

  /// Inputs per block of HiddenProducts.
  static constexpr int chunk = 56;
  CARILLON_HOST_DEVICE int chunks() const { return (inputs + chunk - 1) / chunk; }
};

struct PixelPlace {
  int row, input;
};

/// Loads a pack of pixels of each place_of(0) to place_of(count - 1); 0 beyond the batch or the inputs. There are no
/// branches, so that all loads are under way at once.
template <int count, typename PlaceOf>
CARILLON_HOST_DEVICE void load_pixels(const StepTable& table, const ClassifierActivations& of, const PlaceOf& place_of,
                                      Pack<std::uint8_t, classifier_pack> (&pixels)[count]) {
  CARILLON_UNROLL
  for (int n = 0; n < count; ++n) {
    const PixelPlace place = place_of(n);
    const bool exists = place.row < of.batch && place.input < of.inputs;
    const auto row = static_cast<std::size_t>(exists ? place.row : 0);
    pixels[n] = load<classifier_pack>(table.image(row) + (exists ? place.input : 0));
    for (std::uint8_t& pixel : pixels[n].at) pixel = exists ? pixel : std::uint8_t{0};
  }
}

/// Columns of W1, or rows of W2, per block. A thread has a pack of them.
inline constexpr int classifier_columns = 64;
inline constexpr int classifier_lanes = classifier_columns / classifier_pack;

CARILLON_HOST_DEVICE constexpr int column_tiles(int hidden) {
  return (hidden + classifier_columns - 1) / classifier_columns;
}

/// products[c][b, j] = sum over the inputs i of chunk c of scale * pixel[b, i] * W1[i, j]. A thread computes a pack of
/// columns of several rows. rows_per_thread: at least batch / row_groups.
template <int rows_per_thread>
struct HiddenProducts {
  static constexpr int threads = 256;
  static constexpr int phases = 2;
  static constexpr int row_groups = threads / classifier_lanes;
  static constexpr int rows = row_groups * rows_per_thread;
  static constexpr int chunk = ClassifierActivations::chunk;
  static constexpr int quads = chunk / classifier_pack;

  struct Shared {
    ClassifierPack images[rows][quads];
    ClassifierPack weights[chunk][classifier_lanes];
  };

  StepTable table;
  const float* weights = nullptr;  ///< W1
  ClassifierActivations of;

  int blocks() const { return column_tiles(of.hidden) * of.chunks(); }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    const int tile = block % column_tiles(of.hidden), part = block / column_tiles(of.hidden);
    if constexpr (phase == 0) {
      load_images(shared, part * chunk, thread);
      load_weights(shared, part * chunk, tile * classifier_columns, thread);
    } else {
      multiply(shared, part, tile * classifier_columns, thread);
    }
  }

 private:
  CARILLON_HOST_DEVICE void load_images(Shared& shared, int first_input, int thread) const {
    constexpr int loads = (rows * quads + threads - 1) / threads;
    Pack<std::uint8_t, classifier_pack> pixels[loads];
    const auto place_of = [&](int n) {
      const int i = thread + n * threads;
      return PixelPlace{i / quads, first_input + i % quads * classifier_pack};
    };
    load_pixels(table, of, place_of, pixels);
    CARILLON_UNROLL
    for (int n = 0; n < loads; ++n) {
      const int i = thread + n * threads;
      if (i >= rows * quads) continue;
      ClassifierPack x;
      for (int k = 0; k < classifier_pack; ++k) x.at[k] = of.scale * static_cast<float>(pixels[n].at[k]);
      shared.images[i / quads][i % quads] = x;
    }
  }

  CARILLON_HOST_DEVICE void load_weights(Shared& shared, int first_input, int first_column, int thread) const {
    for (int i = thread; i < chunk * classifier_lanes; i += threads) {
      const int k = i / classifier_lanes, lane = i % classifier_lanes;
      const int input = first_input + k, column = first_column + lane * classifier_pack;
      const bool exists = input < of.inputs && column < of.hidden;
      shared.weights[k][lane] =
          exists ? load<classifier_pack>(weights + static_cast<std::size_t>(input) * of.hidden + column)
                 : ClassifierPack{};
    }
  }

  CARILLON_HOST_DEVICE void multiply(const Shared& shared, int part, int first_column, int thread) const {
    const int lane = thread % classifier_lanes, group = thread / classifier_lanes;
    ClassifierPack sums[rows_per_thread] = {};
    for (int quad = 0; quad < quads; ++quad) {
      ClassifierPack w[classifier_pack];
      CARILLON_UNROLL
      for (int k = 0; k < classifier_pack; ++k) w[k] = shared.weights[quad * classifier_pack + k][lane];
      CARILLON_UNROLL
      for (int r = 0; r < rows_per_thread; ++r) {
        const ClassifierPack x = shared.images[group + r * row_groups][quad];
        CARILLON_UNROLL
        for (int k = 0; k < classifier_pack; ++k) {
          CARILLON_UNROLL
          for (int c = 0; c < classifier_pack; ++c) sums[r].at[c] += x.at[k] * w[k].at[c];
        }
      }
    }
    const int column = first_column + lane * classifier_pack;
    if (column >= of.hidden) return;
    CARILLON_UNROLL
    for (int r = 0; r < rows_per_thread; ++r) {
      const int row = group + r * row_groups;
      if (row < of.batch)
        store(sums[r], of.products + (static_cast<std::size_t>(part) * of.batch + row) * of.hidden + column);
    }
  }
};

/// Calls body(std::integral_constant<int, n>{}) with the rows_per_thread of HiddenProducts for this batch size.
template <typename Body>
void with_rows_per_thread(int batch, const Body& body) {
  constexpr int groups = HiddenProducts<1>::row_groups;
  static_assert(8 * groups == ClassifierLimits::batch);
  if (batch <= 4 * groups) return body(std::integral_constant<int, 4>{});
  if (batch <= 7 * groups) return body(std::integral_constant<int, 7>{});
  body(std::integral_constant<int, 8>{});
}

/// One block per sample: h, z and the sample's loss, then dz and dh. The last block to finish adds the losses up and
/// writes the step sums. The formulas are those of softmax_cross_entropy. Rounding differs: sums have another order,
/// and dz is a division instead of a product with a reciprocal.
struct LogitGradients {
  static constexpr int threads = 256;
  static constexpr int hidden_phase = 0, parts_phase = 1, logits_phase = 2, loss_phase = 3, gradients_phase = 4,
                       losses_phase = 5, end_phase = 6;
  static constexpr int phases = end_phase + 1;
  static constexpr int lanes = ClassifierLimits::classes;
  static constexpr int parts = threads / lanes;  ///< partial sums, each of one thread

  struct Shared {
    ClassifierPack weights[ClassifierLimits::weights2 / classifier_pack];  ///< W2, as in memory
    ClassifierPack h[ClassifierLimits::hidden / classifier_pack];
    float logit_parts[parts][lanes];
    float logits[lanes], dz[lanes];
    double loss_parts[parts];
    std::int32_t label;
    bool last_block;
  };

  StepTable table;
  const float *biases1 = nullptr, *weights2 = nullptr, *biases2 = nullptr;
  ClassifierActivations of;
  double* losses = nullptr;              ///< [batch]
  std::uint32_t* blocks_done = nullptr;  ///< 0 between launches
  float* step_sums = nullptr;            ///< [step_sum_count]

  int blocks() const { return of.batch; }

  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int block, int thread) const {
    if constexpr (phase == hidden_phase) {
      if (thread == 0) shared.label = *table.target<std::int32_t>(static_cast<std::size_t>(block));
      load_weights(shared, thread);
      activate(shared, block, thread);
    } else if constexpr (phase == parts_phase) {
      shared.logit_parts[thread / lanes][thread % lanes] = logit_part(shared, thread);
    } else if constexpr (phase == logits_phase) {
      if (thread < of.classes) shared.logits[thread] = logit(shared, thread);
    } else if constexpr (phase == loss_phase) {
      if (thread < lanes) write_logit_gradient(shared, block, thread);
    } else if constexpr (phase == gradients_phase) {
      write_hidden_gradients(shared, block, thread);
      if (thread == 0) shared.last_block = fetch_increment(blocks_done) + 1 == static_cast<std::uint32_t>(of.batch);
    } else if constexpr (phase == losses_phase) {
      if (shared.last_block && thread < parts) shared.loss_parts[thread] = sum_of_losses(thread);
    } else if (shared.last_block && thread == 0) {
      write_step_sums(shared);
    }
  }

 private:
  CARILLON_HOST_DEVICE void load_weights(Shared& shared, int thread) const {
    const int count = of.hidden * of.classes / classifier_pack;
    for (int i = thread; i < count; i += threads) {
      shared.weights[i] = load<classifier_pack>(weights2 + i * classifier_pack);
    }
  }

  CARILLON_HOST_DEVICE void activate(Shared& shared, int sample, int thread) const {
    for (int i = thread; i < of.hidden / classifier_pack; i += threads) {
      const std::size_t place = static_cast<std::size_t>(sample) * of.hidden + i * classifier_pack;
      ClassifierPack sum = sum_of_products(place);
      const auto bias = load<classifier_pack>(biases1 + i * classifier_pack);
      for (int k = 0; k < classifier_pack; ++k) sum.at[k] = Relu::value(sum.at[k] + bias.at[k]);
      shared.h[i] = sum;
      store(sum, of.h + place);
    }
  }

  CARILLON_HOST_DEVICE ClassifierPack sum_of_products(std::size_t place) const {
    constexpr int at_once = 8;  // loads before the first sum
    const std::size_t stride = static_cast<std::size_t>(of.batch) * of.hidden;
    ClassifierPack sum = {};
    for (int first = 0; first < of.chunks(); first += at_once) {
      ClassifierPack loaded[at_once] = {};
      CARILLON_UNROLL
      for (int i = 0; i < at_once; ++i) {
        if (first + i < of.chunks()) loaded[i] = load<classifier_pack>(of.products + (first + i) * stride + place);
      }
      CARILLON_UNROLL
      for (int i = 0; i < at_once; ++i) {
        for (int k = 0; k < classifier_pack; ++k) sum.at[k] += loaded[i].at[k];
      }
    }
    return sum;
  }

  CARILLON_HOST_DEVICE float logit_part(const Shared& shared, int thread) const {
    const int c = thread % lanes;
    float sum = 0.0f;
    if (c >= of.classes) return sum;
    for (int j = thread / lanes; j < of.hidden; j += parts) {
      sum += element(shared.h, j) * element(shared.weights, j * of.classes + c);
    }
    return sum;
  }

  CARILLON_HOST_DEVICE float logit(const Shared& shared, int c) const {
    float sum = 0.0f;
    for (const auto& part : shared.logit_parts) sum += part[c];
    return sum + biases2[c];
  }

  /// By the thread of class c. The first thread also writes the sample's loss.
  CARILLON_HOST_DEVICE void write_logit_gradient(Shared& shared, int sample, int c) const {
    float largest = -INFINITY, sum = 0.0f, gradient = 0.0f;
    for (int i = 0; i < of.classes; ++i) largest = shared.logits[i] > largest ? shared.logits[i] : largest;
    for (int i = 0; i < of.classes; ++i) sum += std::exp(shared.logits[i] - largest);
    const std::int32_t label = shared.label;
    if (c < of.classes) {
      gradient = std::exp(shared.logits[c] - largest) / (sum * static_cast<float>(of.batch));
      if (c == label) gradient -= 1.0f / static_cast<float>(of.batch);
    }
    shared.dz[c] = gradient;
    of.dz[sample * lanes + c] = gradient;
    if (c == 0) losses[sample] = static_cast<double>(std::log(sum)) + largest - shared.logits[label];
  }

  /// Element by element: neighbouring threads then read neighbouring rows of W2.
  CARILLON_HOST_DEVICE void write_hidden_gradients(const Shared& shared, int sample, int thread) const {
    for (int j = thread; j < of.hidden; j += threads) {
      float sum = 0.0f;
      for (int c = 0; c < of.classes; ++c) sum += shared.dz[c] * element(shared.weights, j * of.classes + c);
      of.dh[static_cast<std::size_t>(sample) * of.hidden + j] = Relu::gradient(element(shared.h, j), sum);
    }
  }

  CARILLON_HOST_DEVICE double sum_of_losses(int part) const {
    double sum = 0.0;
    for (int sample = part; sample < of.batch; sample += parts) sum += losses[sample];
    return sum;
  }

  CARILLON_HOST_DEVICE void write_step_sums(const Shared& shared) const {
    double sum = 0.0;
    for (const double part : shared.loss_parts) sum += part;
    step_sums[loss_sum] = static_cast<float>(sum / of.batch);
    step_sums[sync_sum] = table.header().request_sync;
    *blocks_done = 0;
  }
};

}  // namespace carillon
