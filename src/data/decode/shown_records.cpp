#include "src/data/decode/shown_records.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>

#include "carillon/core/error.h"
#include "carillon/data/record.h"
#include "carillon/images/view.h"
#include "src/data/decode/dataset_info.h"
#include "src/data/records/example_proto.h"
#include "src/images/picture.h"

namespace carillon {
namespace {

std::string name_in(const std::string& file, const Record& record) {
  check_record_data(file, record);
  proto::Example example;
  try {
    parse_generated(record.data, example);
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", describe_record(file, record), error.what());
  }
  const auto& features = example.features().feature();
  const auto found = features.find(picture_name_feature);
  if (found == features.end() || found->second.bytes_list().value_size() != 1) return {};
  return found->second.bytes_list().value(0);
}

}  // namespace

std::vector<std::string> picture_names(std::span<const std::string> files, std::span<const std::size_t> records,
                                       const std::function<void()>& heartbeat) {
  std::vector<std::string> names;
  std::size_t number = 0;  // number of the next record, over all files
  for (const std::string& file : files) {
    RecordReader reader(file, RecordCheck::framing);
    while (names.size() < records.size()) {
      heartbeat();
      RecordPlace place;
      Record record;
      const bool is_wanted = number == records[names.size()];
      if (!(is_wanted ? reader.next(record) : reader.next_place(place))) break;
      if (is_wanted) names.push_back(name_in(file, record));
      number += 1;
    }
  }
  names.resize(records.size());
  return names;
}

namespace {

/// A record format. The program recognises it by the name of its image feature.
struct Form {
  ExampleKeys keys;
  std::int64_t side = 0, channels = 0;  ///< shape of raw pixels; 0: the feature holds an image file
};
const std::array forms{Form{DatasetInfo{}.keys}, Form{{.image = "image_raw", .label = "label"}, 28, 1},
                       Form{{.image = "image", .label = "label"}, 32, 3}};

/// Converts planes to pixels and doubles the size, because the images are small.
SheetTile tile_of_planes(std::span<const std::uint8_t> planes, const Form& form) {
  const std::int64_t side = 2 * form.side, plane = form.side * form.side;
  if (planes.size() != static_cast<std::size_t>(plane * form.channels)) {
    fail(ExitCode::data, "feature '{}' has {} bytes, not {}", form.keys.image, planes.size(), plane * form.channels);
  }
  SheetTile tile{.height = side, .width = side, .pixels = {}, .text = {}};
  for (std::int64_t i = 0; i < side * side; ++i) {
    const std::int64_t pixel = i / side / 2 * form.side + i % side / 2;
    for (std::int64_t c = 0; c < 3; ++c) {
      tile.pixels.push_back(planes[static_cast<std::size_t>((form.channels == 3 ? c * plane : 0) + pixel)]);
    }
  }
  return tile;
}

/// Decodes an image file. If the image is larger than a tile, reduces it to the tile size.
SheetTile tile_of_file(std::span<const std::uint8_t> file, ViewMemory& memory) {
  const PictureInfo info = picture_info(file);
  const std::int64_t longest = std::max({info.height, info.width, sheet_tile_side});
  PictureView view{.part = {0, 0, info.height, info.width},
                   .resized_height = std::max<std::int64_t>(1, info.height * sheet_tile_side / longest),
                   .resized_width = std::max<std::int64_t>(1, info.width * sheet_tile_side / longest)};
  view.height = view.resized_height;
  view.width = view.resized_width;
  SheetTile tile{.height = view.height, .width = view.width, .pixels = {}, .text = {}};
  tile.pixels.resize(static_cast<std::size_t>(tile.height * tile.width * 3));
  render_view(file, view, Resampling::antialiased, memory, tile.pixels);
  return tile;
}

const Form& form_of(std::span<const std::uint8_t> record) {
  proto::Example example;
  parse_generated(record, example);
  for (const Form& form : forms) {
    if (example.features().feature().contains(form.keys.image)) return form;
  }
  fail(ExitCode::data, "has no image to show: no feature '{}', '{}' or '{}'", forms[0].keys.image, forms[1].keys.image,
       forms[2].keys.image);
}

/// Returns the classes, labels or numbers of a record as text.
std::string target_text(const ExampleValues& values, const std::optional<DatasetInfo>& set) {
  std::vector<std::string> texts;
  for (const std::int64_t label : values.integers) texts.push_back(class_text(label, set));
  for (const float number : values.floats) texts.push_back(fmt::format("{:g}", number));
  return fmt::format("{}", fmt::join(texts, ", "));
}

SheetTile tile_of(std::span<const std::uint8_t> record, const std::optional<DatasetInfo>& set, ViewMemory& memory) {
  const Form& form = form_of(record);
  ExampleKeys keys = form.keys;
  if (form.side == 0 && set) keys.label = set->keys.label;
  std::string scratch;
  const ExampleValues found = parse_example_values(record, keys, scratch);
  SheetTile tile = form.side > 0 ? tile_of_planes(found.image, form) : tile_of_file(found.image, memory);
  tile.text = target_text(found, form.side == 0 ? set : std::nullopt);
  return tile;
}

std::size_t record_count(const std::vector<std::string>& files) {
  std::size_t count = 0;
  for (const std::string& file : files) {
    RecordReader reader(file, RecordCheck::framing);
    for (RecordPlace place; reader.next_place(place);) ++count;
  }
  return count;
}

}  // namespace

Picture record_sheet(const std::vector<std::string>& files, std::size_t count) {
  const std::size_t total = record_count(files), shown = std::min(count, total);
  if (shown == 0) fail(ExitCode::data, "{}: no records to show", files.front());
  std::vector<SheetTile> tiles;
  ViewMemory memory;
  std::size_t i = 0;
  for (const std::string& file : files) {
    const std::optional<DatasetInfo> set = read_dataset_info(std::filesystem::path(file).parent_path());
    RecordReader reader(file, RecordCheck::framing);
    for (Record record; tiles.size() < shown && reader.next(record); ++i) {
      if (i != tiles.size() * total / shown) continue;
      try {
        check_record_data(file, record);
        tiles.push_back(tile_of(record.data, set, memory));
      } catch (const Error& error) {
        const std::string what = error.what();
        if (what.starts_with(file)) throw;
        fail(error.code(), "{}: {}", describe_record(file, record), what);
      }
    }
  }
  return make_sheet(tiles);
}

}  // namespace carillon
