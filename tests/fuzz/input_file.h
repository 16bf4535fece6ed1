// A fuzz target's input as files, for readers that take a path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace headway_fuzz {

inline void require(bool condition) {
  if (!condition) std::abort();
}

// A directory of this process, removed at its end.
class InputDirectory {
 public:
  InputDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "headway-fuzz-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~InputDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  InputDirectory(const InputDirectory&) = delete;
  InputDirectory& operator=(const InputDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Writes the bytes to a file of that name and gives its path.
  std::filesystem::path write(const char* name, const std::uint8_t* bytes, std::size_t size) const {
    const std::filesystem::path file = path_ / name;
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(bytes), static_cast<std::streamsize>(size));
    out.close();
    require(out.good());
    return file;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace headway_fuzz
