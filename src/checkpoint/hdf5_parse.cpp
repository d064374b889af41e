// Parses the HDF5 image of a checkpoint after its CRC has been checked. The layout is not trusted: names, links, types,
// ranks, sizes and storage are checked against docs/developer-guide/file-formats.md and the length of the image before
// data are read.
#include <array>
#include <limits>

#include "src/checkpoint/checkpoint_format.h"
#include "src/checkpoint/hdf5_support.h"

namespace carillon {
namespace {

using hdf5::Id;

/// The members of a group, sorted by name. H5Literate collects them.
struct Members {
  std::vector<std::string> names;
  std::string not_hard{};  ///< the first member that is not a hard link

  static herr_t add(hid_t /*group*/, const char* name, const H5L_info_t* info, void* members) noexcept {
    auto& self = *static_cast<Members*>(members);
    try {
      if (info->type == H5L_TYPE_HARD) {
        self.names.emplace_back(name);
        return 0;
      }
      self.not_hard = name;
    } catch (const std::exception&) {
    }
    return -1;
  }
};

class Parser {
 public:
  Parser(std::span<const std::byte> image, const std::string& subject)
      : subject_(subject),
        check_(ExitCode::data, subject),
        bounds_(ExitCode::data, subject),
        unread_bytes_(image.size()) {
    const auto access = hdf5::memory_file_access(check_, 1 << 16);
    // HDF5 only copies the buffer, but the parameter is not declared const.
    check_.done(H5Pset_file_image(access.get(), const_cast<std::byte*>(image.data()), image.size()), "no image");
    file_ = check_.id(H5Fopen("checkpoint", H5F_ACC_RDONLY, access.get()), "not an HDF5 image");
  }

  CheckpointState state() {
    check_version();
    CheckpointState state;
    state.model = text("model");
    state.global_step = integer<std::int64_t>("global_step", H5T_STD_I64LE, H5T_NATIVE_INT64);
    state.seed = integer<std::uint64_t>("seed", H5T_STD_U64LE, H5T_NATIVE_UINT64);
    state.stream_position = integer<std::uint64_t>("stream_position", H5T_STD_U64LE, H5T_NATIVE_UINT64);
    bounds_.check_position(state.global_step, state.stream_position);
    state.options_json = text("options");
    bounds_.check_options(state.options_json);
    state.network = text("network");
    bounds_.check_text("network", state.network);
    state.variables = arrays(group(file_.get(), "variables").get());
    state.moving_averages = arrays(group(file_.get(), "moving_averages").get());
    const auto slots = group(file_.get(), "optimizer");
    for (const auto& slot : member_names(slots.get(), "/optimizer")) {
      bounds_.check_slot(slot);
      state.optimizer.emplace(slot, arrays(group(slots.get(), slot).get()));
    }
    state.buffers = arrays(group(file_.get(), "state").get());
    return state;
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ExitCode::data, "{}: {}", subject_, fmt::format(format, std::forward<Args>(args)...));
  }

  void check_version() const {
    const auto found = integer<std::int64_t>("format_version", H5T_STD_I64LE, H5T_NATIVE_INT64);
    if (found == checkpoint_format_version) return;
    throw RefusedCheckpoint(ExitCode::data, fmt::format("{}: its format_version is {}, this program reads only {}",
                                                        subject_, found, checkpoint_format_version));
  }

  Id attribute(const char* name) const {
    if (H5Aexists(file_.get(), name) <= 0) refuse("it has no attribute {}", name);
    auto result = check_.id(H5Aopen(file_.get(), name, H5P_DEFAULT), name);
    const auto space = check_.id(H5Aget_space(result.get()), name);
    if (H5Sget_simple_extent_type(space.get()) != H5S_SCALAR) refuse("attribute {} is not a scalar", name);
    return result;
  }

  template <typename Integer>
  Integer integer(const char* name, hid_t file_type, hid_t memory_type) const {
    const auto source = attribute(name);
    const auto type = check_.id(H5Aget_type(source.get()), name);
    if (H5Tequal(type.get(), file_type) <= 0) {
      refuse("attribute {} is not a {} 64-bit integer", name,
             std::numeric_limits<Integer>::is_signed ? "signed" : "unsigned");
    }
    Integer value{};
    check_.done(H5Aread(source.get(), memory_type, &value), name);
    return value;
  }

  std::string text(const char* name) const {
    const auto source = attribute(name);
    const auto type = check_.id(H5Aget_type(source.get()), name);
    if (H5Tis_variable_str(type.get()) <= 0) refuse("attribute {} is not a variable-length string", name);
    char* pointer = nullptr;
    check_.done(H5Aread(source.get(), type.get(), &pointer), name);
    const std::string result(pointer == nullptr ? "" : pointer);
    H5free_memory(pointer);
    bounds_.check_text(name, result);
    return result;
  }

  Id group(hid_t parent, const std::string& name) const {
    if (H5Lexists(parent, name.c_str(), H5P_DEFAULT) <= 0) refuse("it has no group {}", name);
    H5L_info_t info{};
    check_.done(H5Lget_info(parent, name.c_str(), &info, H5P_DEFAULT), name);
    if (info.type != H5L_TYPE_HARD) refuse("{} is a link to elsewhere", name);
    auto result = open_object(parent, name, name);
    if (H5Iget_type(result.get()) != H5I_GROUP) refuse("{} is not a group", name);
    return result;
  }

  /// Opens the object of a hard link. Refuses an object with two names, because a group with two names could contain
  /// itself.
  Id open_object(hid_t parent, const std::string& member, const std::string& name) const {
    auto object = check_.id(H5Oopen(parent, member.c_str(), H5P_DEFAULT), name);
    H5O_info_t info{};
    check_.done(H5Oget_info(object.get(), &info), name);
    if (info.rc != 1) refuse("{} is there under {} names", name, info.rc);
    return object;
  }

  std::vector<std::string> member_names(hid_t parent, const std::string& path) const {
    Members members;
    hsize_t position = 0;
    const herr_t status = H5Literate(parent, H5_INDEX_NAME, H5_ITER_INC, &position, Members::add, &members);
    if (!members.not_hard.empty()) refuse("{}{} is a link to elsewhere", path, members.not_hard);
    check_.done(status, path);
    return std::move(members.names);
  }

  std::vector<NamedArray> arrays(hid_t parent) {
    std::vector<NamedArray> result;
    collect(parent, "", 0, result);
    return result;
  }

  void collect(hid_t parent, const std::string& prefix, int depth, std::vector<NamedArray>& result) {
    if (depth > max_name_depth) refuse("groups nest deeper than {} at {}", max_name_depth, prefix);
    const auto members = member_names(parent, prefix);
    if (members.empty() && depth > 0) refuse("group {} is empty", prefix);
    for (const auto& member : members) {
      const auto name = prefix + member;
      const auto object = open_object(parent, member, name);
      switch (H5Iget_type(object.get())) {
        case H5I_GROUP:
          collect(object.get(), name + "/", depth + 1, result);
          break;
        case H5I_DATASET:
          result.push_back(read_array(object.get(), name));
          break;
        default:
          refuse("{} is neither a group nor an array", name);
      }
    }
  }

  /// Refuses data outside the image and all filters except the checksum. Otherwise HDF5 would read other files, and
  /// decompress chunks of any size.
  void check_storage(hid_t data, const std::string& name) const {
    const auto properties = check_.id(H5Dget_create_plist(data), name);
    const auto layout = H5Pget_layout(properties.get());
    if (layout == H5D_VIRTUAL || (layout == H5D_CONTIGUOUS && H5Pget_external_count(properties.get()) != 0)) {
      refuse("array {} has its data in another file", name);
    }
    if (layout != H5D_CHUNKED) return;
    std::array<hsize_t, max_array_rank> extents{};
    const int rank = H5Pget_chunk(properties.get(), max_array_rank, extents.data());
    if (rank < 0 || rank > max_array_rank) check_.refuse(name);
    hsize_t elements = 1;
    for (int i = 0; i < rank && elements <= max_chunk_elements; ++i) elements *= extents[i];
    if (elements > max_chunk_elements) refuse("array {} has chunks of more than {} values", name, max_chunk_elements);
    for (int i = 0; i < H5Pget_nfilters(properties.get()); ++i) {
      unsigned flags = 0, configuration = 0;
      std::size_t value_count = 0;
      const auto filter = H5Pget_filter2(properties.get(), static_cast<unsigned>(i), &flags, &value_count, nullptr, 0,
                                         nullptr, &configuration);
      if (filter != H5Z_FILTER_FLETCHER32) refuse("array {} has a filter that no checkpoint has", name);
    }
  }

  NamedArray read_array(hid_t data, const std::string& name) {
    const auto type = check_.id(H5Dget_type(data), name);
    if (H5Tequal(type.get(), H5T_IEEE_F32LE) <= 0) refuse("array {} is not of float32", name);
    const auto space = check_.id(H5Dget_space(data), name);
    const int rank = H5Sget_simple_extent_ndims(space.get());
    if (rank < 0 || rank > max_array_rank)
      refuse("array {} has rank {}, at most {} expected", name, rank, max_array_rank);
    std::array<hsize_t, max_array_rank> extents{};
    check_.done(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr), name);
    NamedArray array{.name = name, .shape = {extents.begin(), extents.begin() + rank}, .values = {}};
    bounds_.check_array(array.name, array.shape);
    const auto count = take_elements(array);
    check_storage(data, name);
    array.values.resize(count);
    check_.done(H5Dread(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, array.values.data()),
                "cannot read array " + name);
    return array;
  }

  /// Returns the element count of `array`. Checks that all arrays together do not have more bytes than the image.
  std::size_t take_elements(const NamedArray& array) {
    std::size_t count = 1;
    for (const auto extent : array.shape) {
      const bool fits = extent >= 0 && (extent == 0 || count <= unread_bytes_ / static_cast<std::size_t>(extent));
      if (!fits) refuse("array {} of shape [{}] is larger than the file", array.name, fmt::join(array.shape, ","));
      count *= static_cast<std::size_t>(extent);
    }
    if (count > unread_bytes_ / sizeof(float)) refuse("array {} is larger than the file", array.name);
    unread_bytes_ -= count * sizeof(float);
    return count;
  }

  std::string subject_;
  hdf5::Checker check_;
  CheckpointBounds bounds_;
  std::size_t unread_bytes_;
  Id file_;
};

}  // namespace

CheckpointState parse_hdf5_image(std::span<const std::byte> image, const std::string& subject) {
  const hdf5::Session session;
  return Parser(image, subject).state();
}

}  // namespace carillon
