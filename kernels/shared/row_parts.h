// RowParts: a tensor as rows, and each row as parts along one axis, for split and concat.
//
//   read_parts    part_k[row, i] = whole[row, offset_k + i]
//   write_parts   whole[row, offset_k + i] = part_k[row, i]
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "carillon/core/tensor.h"
#include "carillon/device/device.h"

namespace carillon {

/// The tensor has `rows` rows of `row_size` elements. Part k is the elements [offset, offset + size) of each row.
struct RowParts {
  struct Part {
    std::int64_t offset = 0, size = 0;
  };

  std::int64_t rows = 0, row_size = 0;
  std::vector<Part> parts;
};

/// The axis of a tensor of this shape that an op divides or joins; -1: the last one. Errors: failed (no such axis, or
/// the batch). `verb`: for the message, for example "split".
std::size_t axis_to_part(std::int64_t axis, const Shape& shape, std::string_view verb);
/// `sizes`: extents of the parts along the axis.
RowParts row_parts(const Shape& whole, std::size_t axis, std::span<const std::int64_t> sizes);

/// read_parts skips parts without data. write_parts writes 0 for parts without data.
void read_parts_cpu(const RowParts& rows, const Tensor& whole, std::span<const Tensor> parts, Stream& stream);
void write_parts_cpu(const RowParts& rows, const Tensor& whole, std::span<const Tensor> parts, Stream& stream);
void read_parts_cuda(const RowParts& rows, const Tensor& whole, std::span<const Tensor> parts, Stream& stream);
void write_parts_cuda(const RowParts& rows, const Tensor& whole, std::span<const Tensor> parts, Stream& stream);

/// The copies on one device.
struct PartCopies {
  using Copy = void (*)(const RowParts& rows, const Tensor& whole, std::span<const Tensor> parts, Stream& stream);
  Copy read, write;
};
inline constexpr PartCopies part_copies_cpu{read_parts_cpu, write_parts_cpu};

}  // namespace carillon
