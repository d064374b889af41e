// Picture lists: which picture files there are, and the class of each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace carillon {

struct ListedPicture {
  std::filesystem::path path;
  std::size_t class_index = 0;  ///< in PictureList::classes
};

struct PictureList {
  std::vector<std::string> classes;
  std::vector<ListedPicture> pictures;
  std::size_t passed_over = 0;  ///< files in the folders that are not named as pictures are
};

/// Whether a file so named is taken for a picture: .jpg, .jpeg, .jpe, .png, in small or capital letters.
bool is_picture_name(const std::filesystem::path& path);

/// The files in a folder and those within it that are so named, in the order of their names' bytes, hidden ones aside.
/// Errors: io.
std::vector<std::filesystem::path> pictures_in(const std::filesystem::path& folder);

/// The pictures of a folder with a subfolder a class, those of deeper folders too, classes and pictures in the order of
/// their names' bytes. Hidden files and folders are passed over, uncounted.
/// Or of a list file: lines of a path, from the list's folder on, and behind the last tab or, without one, space, its
/// class; empty lines and those that begin with # are passed over.
/// `classes`: the names that there may be, in their order; none: those that are found, sorted.
/// Errors: no_input (nothing of that name, a folder without pictures), data (a line without a class, a class that is
/// not among `classes`, a folder of a class without pictures), io.
PictureList list_pictures(const std::filesystem::path& input, const std::vector<std::string>& classes = {});

/// The pictures in two parts, of each class `share` in the second but for one, so that all together come near to it,
/// and one in the first at least; which ones is drawn by `seed`. Both are in random order.
struct SharedPictures {
  std::vector<ListedPicture> kept, taken;
};
SharedPictures share_out(const std::vector<ListedPicture>& pictures, std::size_t class_count, double share,
                         std::uint64_t seed);

}  // namespace carillon
