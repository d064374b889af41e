// MNIST source format: IDX files, plain or GZIP (http://yann.lecun.com/exdb/mnist/), big endian.
// Image files (train-images-idx3-ubyte, t10k-images-idx3-ubyte):
//   u32 0x00000803 | u32 count | u32 28 | u32 28 | count x 784 pixels.
// Label files (train-labels-idx1-ubyte, t10k-labels-idx1-ubyte):
//   u32 0x00000801 | u32 count | count x 1 label, 0 to 9.
// Fashion-MNIST has the same format.
#include "src/data/convert/shard_writer.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "carillon/core/error.h"
#include "src/data/convert/picture_folders.h"
#include "src/data/convert/source_file.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t side = 28, image_bytes = side * side;
constexpr std::uint8_t class_count = 10;

/// The role of a file: its content and its split.
struct Role {
  std::string_view content;  ///< the content: "images" or "labels"
  std::string_view dimensions;
  std::span<const std::string_view> splits;  ///< the names of the split in file names: "train", or "t10k" and "test"
};

bool take_end(std::string_view& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.remove_suffix(end.size());
  return true;
}

/// A file name in a uniform spelling: in lower case, with hyphens instead of dots and underscores, and without the
/// ending of a compression format.
struct PlainName {
  std::string text;
  bool is_compressed = false;
};

PlainName plain_name(const fs::path& path) {
  PlainName name{.text = path.filename().string()};
  for (char& c : name.text) {
    c = c == '.' || c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  std::string_view left = name.text;
  for (const std::string_view ending : {"-gz", "-xz", "-bz2", "-zst"}) {
    if (!take_end(left, ending)) continue;
    name.is_compressed = true;
    break;
  }
  name.text = std::string(left);
  return name;
}

/// True if a file has the role: [PREFIX-]SPLIT-CONTENT-idxN-ubyte. PREFIX names a variant of MNIST (emnist-digits).
bool has_role(const fs::path& path, const Role& role) {
  const PlainName name = plain_name(path);
  std::string_view left = name.text;
  if (!take_end(left, fmt::format("-{}-idx{}-ubyte", role.content, role.dimensions))) return false;
  return std::ranges::any_of(
      role.splits, [&](std::string_view split) { return left == split || left.ends_with(fmt::format("-{}", split)); });
}

/// Finds the file of a role in the folder or, if there is none, in its folders, up to two levels deep. Some programs
/// unpack a file into a folder with the name of the file. If a folder contains the same file plain and compressed, the
/// plain file is used. Errors: no_input (there is no such file); data (there are several such files).
fs::path find_file(const fs::path& directory, const Role& role) {
  constexpr int most_levels = 3;
  std::vector<fs::path> folders{directory};
  for (int level = 0; level < most_levels; ++level) {
    std::vector<fs::path> found, inner;
    for (const fs::path& folder : folders) {
      for (const fs::directory_entry& entry : entries_of(folder)) {
        if (is_folder(entry)) {
          inner.push_back(entry.path());
        } else if (has_role(entry.path(), role)) {
          found.push_back(entry.path());
        }
      }
    }
    std::ranges::stable_sort(found, {}, [](const fs::path& file) { return plain_name(file).is_compressed; });
    std::set<std::pair<fs::path, std::string>> names;  // the folder, and the name of the file in the folder
    std::erase_if(
        found, [&](const fs::path& file) { return !names.emplace(file.parent_path(), plain_name(file).text).second; });
    if (found.size() == 1) return found.front();
    if (found.size() > 1) {
      fail(ExitCode::data, "{} and {}: both hold the {} of the split {}: keep one of them, or name its folder",
           found[0].string(), found[1].string(), role.content, role.splits.front());
    }
    folders = std::move(inner);
  }
  fail(ExitCode::no_input, "{}: holds no file {}-{}-idx{}-ubyte, with or without .gz", directory.string(),
       role.splits.front(), role.content, role.dimensions);
}

/// Reads an IDX file of unsigned bytes. `item_shape` is the shape of one item, e.g. {28, 28}.
std::vector<std::uint8_t> read_idx(const std::string& path, std::span<const std::size_t> item_shape) {
  SourceFile file(path);
  const std::size_t header_words = 2 + item_shape.size();
  const auto header = file.take(4 * header_words);
  if (header.size() < 4 * header_words)
    fail(ExitCode::data, "{}: {} bytes are less than an IDX file's header of {} bytes", path, header.size(),
         4 * header_words);
  const auto word = [&](std::size_t i) {
    const std::uint8_t* bytes = header.data() + 4 * i;
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
  };
  const std::uint32_t magic = 0x00000800u | static_cast<std::uint32_t>(1 + item_shape.size());
  if (word(0) != magic)
    fail(ExitCode::data, "{}: starts with {:08x} instead of {:08x}: not the IDX file that its name indicates", path,
         word(0), magic);
  std::size_t item_bytes = 1;
  for (std::size_t i = 0; i < item_shape.size(); ++i) {
    if (word(2 + i) != item_shape[i])
      fail(ExitCode::data, "{}: dimension {} is {}, not {}", path, 1 + i, word(2 + i), item_shape[i]);
    item_bytes *= item_shape[i];
  }
  const std::size_t wanted_bytes = word(1) * item_bytes;
  auto items = file.take(wanted_bytes);
  if (items.size() < wanted_bytes)
    fail(ExitCode::data, "{}: truncated: {} bytes of data; the header's {} items need {}", path, items.size(), word(1),
         wanted_bytes);
  if (!file.take(1).empty()) fail(ExitCode::data, "{}: trailing bytes after the {} items of its header", path, word(1));
  return items;
}

ImageSplit read_split(const fs::path& directory, const std::string& name, std::span<const std::string_view> splits) {
  const std::string images_path = find_file(directory, {"images", "3", splits}).string();
  const std::string labels_path = find_file(directory, {"labels", "1", splits}).string();
  constexpr std::size_t image_shape[] = {side, side};
  ImageSplit split{.name = name,
                   .image_bytes = image_bytes,
                   .images = read_idx(images_path, image_shape),
                   .labels = read_idx(labels_path, {})};
  if (split.images.size() != split.count() * image_bytes)
    fail(ExitCode::data, "{}: {} images, but {} has {} labels", images_path, split.images.size() / image_bytes,
         labels_path, split.count());
  const auto bad = std::ranges::find_if(split.labels, [](std::uint8_t label) { return label >= class_count; });
  if (bad != split.labels.end())
    fail(ExitCode::data, "{}: item {}: label {} is outside 0..{}", labels_path, bad - split.labels.begin(), *bad,
         class_count - 1);
  return split;
}

}  // namespace

std::vector<ImageSplit> read_mnist(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) fail(ExitCode::no_input, "{}: no such folder", directory.string());
  constexpr std::string_view train[] = {"train"}, test[] = {"t10k", "test"};
  std::vector<ImageSplit> splits;
  splits.push_back(read_split(directory, "train", train));
  splits.push_back(read_split(directory, "test", test));
  return splits;
}

void encode_mnist(const ImageSplit& split, std::size_t i, proto::Example& example) {
  auto& features = *example.mutable_features()->mutable_feature();
  const auto image = split.image(i);
  features["image_raw"].mutable_bytes_list()->add_value(image.data(), image.size());
  features["pixels"].mutable_int64_list()->add_value(static_cast<std::int64_t>(image.size()));
  features["label"].mutable_int64_list()->add_value(split.labels[i]);
}

}  // namespace carillon
