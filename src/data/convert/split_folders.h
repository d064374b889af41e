// Split folders: recognises a folder of pictures that is already divided into training, validation and test pictures.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace carillon {

/// What the folders in a folder of pictures mean.
enum class FolderLayout {
  automatic,  ///< splits if their names say so, else classes
  classes,    ///< classes
};

/// The value of --layout: auto (also if empty) or classes. Errors: usage.
FolderLayout layout_of(const std::string& text);

/// Describes --layout.
inline constexpr const char* layout_help =
    "meaning of the folders in the folder of pictures: auto: splits if their names are such as train, val or test, "
    "else "
    "classes; classes: always classes";

struct SplitFolder {
  std::string split;  ///< train, validation or test
  std::filesystem::path folder;
};

struct SplitFolders {
  std::vector<SplitFolder> splits;                ///< train first
  std::vector<std::filesystem::path> unlabelled;  ///< folders val or test with pictures but without folders of classes
};

/// The split that the words of a folder's name state: "train" for Training, train_images and TrainSet, "validation" for
/// val, valid and dev, "test" for Testing and test-set. Empty if no word states a split, or if they state several.
std::string split_of_name(const std::string& name);

/// Whether `folder` contains folders, and no pictures directly. Errors: io.
bool has_class_folders(const std::filesystem::path& folder);

/// Recognises a folder that contains a folder with pictures to train on, and one for validation or test, by their names
/// (split_of_name). The first must have one folder per class. The others also have one folder per class. If
/// they have no such folders, or a single one that is no class of the training, their pictures are not labelled.
/// Returns nullopt if `input` is no folder, or has no splits, for example if train and test are its classes, and with
/// FolderLayout::classes.
///
/// Errors: io; data: two folders for one split, a further folder with pictures, and folders that hold the same folders
/// but have unknown names, so that they may be splits or classes.
std::optional<SplitFolders> find_split_folders(const std::filesystem::path& input, FolderLayout layout);

}  // namespace carillon
