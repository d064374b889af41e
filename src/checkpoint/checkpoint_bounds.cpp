#include "src/checkpoint/checkpoint_bounds.h"

#include <algorithm>

#include "src/core/text.h"

namespace carillon {
namespace {

/// The nesting depth of arrays and objects in a JSON text.
int json_depth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\')
      ++i;
    else if (c == '"')
      in_string = !in_string;
    else if (!in_string && (c == '[' || c == '{'))
      deepest = std::max(deepest, ++depth);
    else if (!in_string && (c == ']' || c == '}'))
      --depth;
  }
  return deepest;
}

/// Whether HDF5 uses `name`, split at '/', as a path without change. HDF5 ignores empty parts and ".".
bool is_path(std::string_view name) {
  const std::string whole = fmt::format("/{}/", name);
  return whole.find("//") == whole.npos && whole.find("/./") == whole.npos && name.find('\0') == name.npos;
}

}  // namespace

void CheckpointBounds::check_text(std::string_view attribute, std::string_view text) const {
  if (text.size() > max_text_bytes) {
    refuse("attribute {} has {} bytes, at most {} expected", attribute, text.size(), max_text_bytes);
  }
  if (text.find('\0') != text.npos) refuse("attribute {} has a zero byte", attribute);
}

void CheckpointBounds::check_options(std::string_view json) const {
  check_text("options", json);
  if (json_depth(json) > max_options_depth) refuse("attribute options nests deeper than {}", max_options_depth);
}

void CheckpointBounds::check_position(std::int64_t global_step, std::uint64_t stream_position) const {
  if (global_step < 0 || global_step > max_global_step) {
    refuse("attribute global_step is {}, expected 0 to {}", global_step, max_global_step);
  }
  if (stream_position > max_stream_position) {
    refuse("attribute stream_position is {}, expected 0 to {}", stream_position, max_stream_position);
  }
}

void CheckpointBounds::check_array(std::string_view name, std::span<const std::int64_t> shape) const {
  const std::string shown = printable(name, 100);
  if (!is_path(name)) refuse("array name '{}' is no path", shown);
  if (name.size() > max_name_bytes) {
    refuse("array name '{}' has {} bytes, at most {} expected", shown, name.size(), max_name_bytes);
  }
  if (std::ranges::count(name, '/') > max_name_depth) {
    refuse("array name '{}' nests deeper than {}", shown, max_name_depth);
  }
  if (shape.size() > max_array_rank) {
    refuse("array '{}' has rank {}, at most {} expected", shown, shape.size(), max_array_rank);
  }
}

void CheckpointBounds::check_slot(std::string_view name) const {
  if (!is_path(name) || name.find('/') != name.npos || name.size() > max_name_bytes) {
    refuse("optimizer slot name '{}' is not one of at most {} bytes without '/'", printable(name, 100), max_name_bytes);
  }
}

}  // namespace carillon
