// Maps an element of a layout op's result to an element of x, for the CPU loops and the GPU kernels. The file also has
// the kernels and, in CUDA builds, the functions that enqueue them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "carillon/core/host_device.h"
#include "carillon/core/tensor.h"
#include "carillon/device/device.h"
#include "kernels/shared/pack.h"
#include "src/core/bf16.h"

namespace carillon {

// TransposeAxes: maps an element of a transposed sample to its position in the original sample. Axes that stay
// neighbours in the transposed sample are merged into one axis. Axes of extent 1 are omitted.

/// An axis of the result. `stride`: the stride that this axis has in the original tensor, in elements.
struct TransposeAxis {
  std::int64_t extent = 1, stride = 1;
};

struct TransposeAxes {
  static constexpr int max_count = 6;

  TransposeAxis at[max_count];  ///< outermost first
  int count = 0;
};

/// Returns the position in the original sample of element `i` of the transposed sample.
CARILLON_HOST_DEVICE inline std::int64_t original_place(const TransposeAxes& axes, std::int64_t i) {
  std::int64_t place = 0;
  for (int k = axes.count; k-- > 0;) {
    const std::int64_t rest = i / axes.at[k].extent;
    place += (i - rest * axes.at[k].extent) * axes.at[k].stride;
    i = rest;
  }
  return place;
}

/// Returns at least one axis. `axes`: a permutation of the axes of x that starts with 0. Errors: failed (there are more
/// axes than max_count).
TransposeAxes transpose_axes(const Shape& x, std::span<const std::int64_t> axes);

/// The kernel of transpose. Each thread writes a pack of n elements of y. If n > 1, n divides the last extent, and the
/// elements of a pack are also neighbours in x. T: float or Bf16.
template <typename T, int n>
struct TransposeForward {
  TransposeAxes axes;
  std::int64_t size = 0;  ///< number of elements of a sample
  const T* x = nullptr;
  T* y = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t pack) const {
    const std::int64_t i = pack * n, sample = i / size;
    store(load<n>(x + sample * size + original_place(axes, i - sample * size)), y + i);
  }
};

/// y = x transposed. x and y have the same type.
void transpose_cuda(std::span<const std::int64_t> axes, const Tensor& x, const Tensor& y, Stream& stream);

// PadAxes: maps an element of y to an element of x, for pad, slice and their gradients.
//
// On each axis, element i of y is element (i * step + offset) / divisor of x, if x has an element with this index. In
// the PadAxes of the gradient, x and y are exchanged. If all elements of an axis are copied and the previous axis has
// step 1, the two axes are merged.

struct PadAxis {
  std::int64_t x_extent = 1, y_extent = 1;
  std::int64_t step = 1, offset = 0;
  std::int64_t divisor = 1;  ///< above 0; if it is above 1, step is 1 or -1

  /// Returns the index in x of element `i` of y, or -1 if x has no such element.
  CARILLON_HOST_DEVICE std::int64_t source(std::int64_t i) const {
    const std::int64_t scaled = i * step + offset;
    if (scaled < 0) return -1;
    const std::int64_t index = divisor == 1 ? scaled : scaled / divisor;
    return index < x_extent && index * divisor == scaled ? index : -1;
  }
  bool copies_all() const { return x_extent == y_extent && step == 1 && offset == 0 && divisor == 1; }
};

struct PadAxes {
  static constexpr int max_count = 6;

  PadAxis at[max_count];  ///< the axes of a sample, the outermost axis first
  int count = 0;
};

/// Maps element `i` of a sample of y to its position in a sample of x. Returns -1 if x has no such element. Uses only
/// the first `count` axes.
CARILLON_HOST_DEVICE inline std::int64_t source_place(const PadAxes& axes, int count, std::int64_t i) {
  std::int64_t place = 0, stride = 1;
  bool exists = true;
  for (int k = count; k-- > 0;) {
    const PadAxis& axis = axes.at[k];
    const std::int64_t rest = i / axis.y_extent, index = axis.source(i - rest * axis.y_extent);
    exists = exists && index >= 0;
    place += index * stride;
    stride *= axis.x_extent;
    i = rest;
  }
  return exists ? place : -1;
}

/// Returns at least one axis. Errors: failed (there are more axes than max_count; a number does not fit into 64 bits).
PadAxes pad_axes(const std::vector<PadAxis>& sample);

/// Returns the axes of the gradient, which map dy to dx.
PadAxes gradient_axes(PadAxes axes);

/// The kernel of pad and slice. Each thread writes one element of y. T: float or Bf16.
template <typename T>
struct PadForward {
  PadAxes axes;
  std::int64_t x_size = 0, y_size = 0;  ///< number of elements of a sample
  T value = {};
  const T* x = nullptr;
  T* y = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t sample = i / y_size, place = source_place(axes, axes.count, i - sample * y_size);
    y[i] = place < 0 ? value : x[sample * x_size + place];
  }
};

/// Computes y: the elements of x that the axes select, and `value` for all other elements.
void pad_cuda(const PadAxes& axes, float value, const Tensor& x, const Tensor& y, Stream& stream);

// RowParts: divides a tensor into rows, and each row into parts along one axis, for split and concat.
//   read_parts    part_k[row, i] = whole[row, offset_k + i]
//   write_parts   whole[row, offset_k + i] = part_k[row, i]

/// The tensor has `rows` rows of `row_size` elements. Part k is the elements [offset, offset + size) of each row.
struct RowParts {
  struct Part {
    std::int64_t offset = 0, size = 0;
  };

  std::int64_t rows = 0, row_size = 0;
  std::vector<Part> parts;
};

/// Returns the axis that an op divides or joins in a tensor of this shape. If `axis` is -1, returns the last axis.
/// `verb`: a verb for the message, for example "split". Errors: failed (the axis does not exist or is the batch).
std::size_t axis_to_part(std::int64_t axis, const Shape& shape, std::string_view verb);

// The kernels of RowParts: each thread copies a pack of n neighbouring elements of one part. n divides the sizes and
// offsets of all parts.

/// The place of a part of `size` elements in rows of `row_size` elements.
struct PartOfRows {
  std::int64_t row_size = 0, offset = 0, size = 0;

  /// Returns the position, in the rows of the whole tensor, of element i of the part.
  CARILLON_HOST_DEVICE std::int64_t place(std::int64_t i) const {
    const std::int64_t row = i / size;
    return row * row_size + offset + i - row * size;
  }
};

/// Copies a part of each row of `whole` to `part`. T: float or Bf16.
template <typename T, int n>
struct ReadPart {
  PartOfRows place;
  const T* whole = nullptr;
  T* part = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t pack) const {
    store(load<n>(whole + place.place(pack * n)), part + pack * n);
  }
};

/// Copies `part` to its place in each row of `whole`.
template <typename T, int n>
struct WritePart {
  PartOfRows place;
  const T* part = nullptr;  ///< null: the kernel writes 0 to this place
  T* whole = nullptr;

  CARILLON_HOST_DEVICE void operator()(std::int64_t pack) const {
    store(part == nullptr ? Pack<T, n>{} : load<n>(part + pack * n), whole + place.place(pack * n));
  }
};

/// read_parts skips parts without data. For parts without data, write_parts writes 0.
void read_parts_cuda(const RowParts& rows, const Tensor& whole, std::span<const Tensor> parts, Stream& stream);
void write_parts_cuda(const RowParts& rows, const Tensor& whole, std::span<const Tensor> parts, Stream& stream);

}  // namespace carillon
