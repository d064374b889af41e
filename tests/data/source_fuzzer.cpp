// Fuzzes the single files that tfrecord_convert reads: IDX and CIFAR-10's batches, plain or compressed. There are two
// permitted results. The converter may reject a file with a line that names the file. Otherwise, if the images are
// written to a file again, this file must be equal to the input.
//
// The first byte of an input selects a file of a valid dataset. The remaining bytes replace this file.
#include <array>
#include <string>

#include "src/data/convert/shard_writer.h"
#include "tests/support/fuzzing.h"

namespace carillon {
namespace {

constexpr std::array mnist_names = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                    "t10k-labels-idx1-ubyte"};
constexpr std::array cifar10_names = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                      "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// Returns an IDX file with `count` items. Each item consists of the bytes of `item`.
std::string idx(std::string_view shape, std::uint8_t count, std::string_view item) {
  std::string file("\0\0\x08", 3);
  file += static_cast<char>(1 + shape.size());
  const auto append_word = [&](std::uint8_t value) { (file += std::string(3, '\0')) += static_cast<char>(value); };
  append_word(count);
  for (const char extent : shape) append_word(static_cast<std::uint8_t>(extent));
  for (int i = 0; i < count; ++i) file += item;
  return file;
}

/// Returns a valid IDX file: two images if i is even, two labels if i is odd.
std::string sound_mnist(std::size_t i) {
  return i % 2 == 0 ? idx("\x1c\x1c", 2, std::string(784, 'x')) : idx("", 2, std::string(1, '\5'));
}
std::string sound_cifar10() { return std::string(3073, '\1') + std::string(3073, '\2'); }

bool holds(std::span<const std::uint8_t> found, std::string_view text) {
  return std::ranges::equal(std::as_bytes(found), std::as_bytes(std::span(text)));
}

void read_changed_mnist(const ScratchDirectory& directory, std::size_t changed, const std::string& file) {
  directory.write(mnist_names[changed], bytes_of(file));
  const auto splits = accepted(directory.path(""), [&] { return read_mnist(directory.path("")); });
  directory.write(mnist_names[changed], bytes_of(sound_mnist(changed)));
  if (!splits) return;
  const ImageSplit& split = splits->at(changed / 2);
  fuzz_check(split.images.size() == split.count() * 784);
  if (!file.starts_with('\0')) return;  // a compressed file cannot be compared
  const std::size_t header_bytes = changed % 2 == 0 ? 16 : 8;
  fuzz_check(holds(changed % 2 == 0 ? split.images : split.labels, std::string_view(file).substr(header_bytes)));
}

void read_changed_cifar10(const ScratchDirectory& directory, std::size_t changed, const std::string& file) {
  directory.write(cifar10_names[changed], bytes_of(file));
  const auto splits = accepted(directory.path(""), [&] { return read_cifar10(directory.path("")); });
  directory.write(cifar10_names[changed], bytes_of(sound_cifar10()));
  if (!splits) return;
  std::string stored;
  for (const ImageSplit& split : *splits) {
    for (std::size_t i = 0; i < split.count(); ++i) {
      stored += static_cast<char>(split.labels[i]);
      stored.append(reinterpret_cast<const char*>(split.image(i).data()), split.image_bytes);
    }
  }
  fuzz_check(stored.size() % 3073 == 0);
  if (!file.empty() && file[0] < 10) {
    fuzz_check(stored.compare(changed * sound_cifar10().size(), file.size(), file) == 0);
  }
}

/// Makes two folders with valid datasets, one of MNIST and one of CIFAR-10.
struct Sources {
  Sources() {
    for (std::size_t i = 0; i < mnist_names.size(); ++i) mnist.write(mnist_names[i], bytes_of(sound_mnist(i)));
    for (const char* name : cifar10_names) cifar10.write(name, bytes_of(sound_cifar10()));
  }
  ScratchDirectory mnist, cifar10;
};

}  // namespace
}  // namespace carillon

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carillon;
  static const Sources sources;
  if (size == 0) return 0;
  const std::size_t which = data[0] % (mnist_names.size() + 2);
  const std::string file(data + 1, data + size);
  if (which < mnist_names.size()) {
    read_changed_mnist(sources.mnist, which, file);
  } else {
    read_changed_cifar10(sources.cifar10, which == mnist_names.size() ? 2 : cifar10_names.size() - 1, file);
  }
  return 0;
}
