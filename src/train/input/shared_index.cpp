#include "src/train/input/shared_index.h"

namespace carillon {
namespace {

/// The index of this rank's part of the files that `index` lacks.
FileIndex own_part(const std::vector<std::string>& paths, const FileIndex& index, const Mpi& mpi) {
  std::vector<std::string> own;
  int number = 0;
  for (const std::string& path : paths) {
    if (!index.contains(path) && number++ % mpi.size() == mpi.rank()) own.push_back(path);
  }
  std::vector<IndexedFile> files = index_files(own, [](std::size_t) {});
  FileIndex found;
  for (std::size_t i = 0; i < own.size(); ++i) found.emplace(own[i], std::move(files[i]));
  return found;
}

}  // namespace

FileIndex share_index(const std::vector<std::string>& paths, const Mpi& mpi) {
  std::string known;
  mpi.run_on_all([&] {
    if (mpi.rank() == 0) known = index_bytes(known_files(paths));
  });
  FileIndex index = parse_index(mpi.all_gather(known).front());
  std::string found;
  mpi.run_on_all([&] { found = index_bytes(own_part(paths, index, mpi)); });
  for (const std::string& part : mpi.all_gather(found)) index.merge(parse_index(part));
  return index;
}

}  // namespace carillon
