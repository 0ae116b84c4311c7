//! Headers of programs, without the programs: what `Requirements` reads.

use object::Endianness;
use object::write::elf::{FileHeader, ProgramHeader, Vernaux, Verneed, Writer};

use super::platform::{Os, Platform};

/// The headers of a program that runs on this platform.
pub(super) fn for_platform(platform: &Platform) -> Vec<u8> {
    let is_arm = platform.processor == "aarch64";
    let machine = if is_arm { object::elf::EM_AARCH64 } else { object::elf::EM_X86_64 };
    match platform.os {
        Os::LinuxGnu => elf(machine, Some(("libc.so.6", "GLIBC_2.17"))),
        Os::LinuxMusl => elf(machine, None),
        Os::Mac => mach_o(is_arm),
        Os::Windows => pe("KERNEL32.dll"),
    }
}

/// Linked dynamically, if it needs a version of a library.
pub(super) fn elf(machine: u16, needs: Option<(&str, &str)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(Endianness::Little, true, &mut bytes);
    writer.reserve_file_header();
    writer.reserve_program_headers(1);
    writer.reserve_null_section_index();
    let names = needs.map(|(library, version)| {
        let names = [library, version].map(|name| writer.add_dynamic_string(name.as_bytes()));
        writer.reserve_dynstr_section_index();
        writer.reserve_gnu_verneed_section_index();
        writer.reserve_dynamic_section_index();
        names
    });
    writer.reserve_shstrtab_section_index();
    if names.is_some() {
        writer.reserve_dynstr();
        writer.reserve_gnu_verneed(1, 1);
        writer.reserve_dynamic(2);
    }
    writer.reserve_shstrtab();
    writer.reserve_section_headers();
    let header = FileHeader {
        os_abi: 0,
        abi_version: 0,
        e_type: object::elf::ET_DYN,
        e_machine: machine,
        e_entry: 0,
        e_flags: 0,
    };
    writer.write_file_header(&header).unwrap();
    writer.write_program_header(&ProgramHeader {
        p_type: if names.is_some() { object::elf::PT_INTERP } else { object::elf::PT_LOAD },
        p_flags: 0,
        p_offset: 0,
        p_vaddr: 0,
        p_paddr: 0,
        p_filesz: 0,
        p_memsz: 0,
        p_align: 0,
    });
    if let Some([library, version]) = names {
        writer.write_dynstr();
        writer.write_align_gnu_verneed();
        writer.write_gnu_verneed(&Verneed { version: 1, aux_count: 1, file: library });
        writer.write_gnu_vernaux(&Vernaux { flags: 0, index: 2, name: version });
        writer.write_align_dynamic();
        writer.write_dynamic_string(object::elf::DT_NEEDED, library).unwrap();
        writer.write_dynamic(object::elf::DT_NULL, 0).unwrap();
    }
    writer.write_shstrtab();
    writer.write_null_section_header();
    if names.is_some() {
        writer.write_dynstr_section_header(0);
        writer.write_gnu_verneed_section_header(0);
        writer.write_dynamic_section_header(0);
    }
    writer.write_shstrtab_section_header();
    bytes
}

/// For macOS 11, signed, with the library of the system.
fn mach_o(is_arm: bool) -> Vec<u8> {
    let processor = if is_arm { 0x0100_000c } else { 0x0100_0007 };
    let library = b"/usr/lib/libSystem.B.dylib\0\0\0\0\0\0";
    let library_size = 24 + u32::try_from(library.len()).unwrap();
    // Commands: LC_BUILD_VERSION, LC_CODE_SIGNATURE, LC_LOAD_DYLIB.
    let words = [
        vec![0xfeed_facf, processor, 0, 2, 3, 24 + 16 + library_size, 0, 0],
        vec![0x32, 24, 1, 11 << 16, 11 << 16, 0],
        vec![0x1d, 16, 0, 0],
        vec![0x0c, library_size, 24, 0, 0, 0],
    ];
    let words = words.concat().into_iter().flat_map(u32::to_le_bytes);
    words.chain(library.iter().copied()).collect()
}

/// For `x86_64`, with a section that imports from a library.
pub(super) fn pe(library: &str) -> Vec<u8> {
    const ADDRESS: u32 = 0x1000;
    let mut bytes = vec![0; 0x200];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(0, b"MZ");
    put(0x3c, &0x40_u32.to_le_bytes());
    put(0x40, b"PE\0\0\x64\x86\x01\0");
    // The size of the optional header, its kind, and the number of its directories, of which the second has the imports.
    put(0x54, &0xf0_u16.to_le_bytes());
    put(0x58, b"\x0b\x02");
    put(0x58 + 108, &16_u32.to_le_bytes());
    put(0x58 + 112 + 8, &ADDRESS.to_le_bytes());
    // The section: its size and address in memory, and those in the file.
    let section = [0x100, ADDRESS, 0x100, 0x200].map(u32::to_le_bytes).concat();
    put(0x58 + 0xf0 + 8, &section);
    // One import, whose name follows the end of the list.
    let import = [ADDRESS, 0, 0, ADDRESS + 40, ADDRESS, 0, 0, 0, 0, 0].map(u32::to_le_bytes);
    bytes.extend(import.concat());
    bytes.extend_from_slice(library.as_bytes());
    bytes.resize(0x300, 0);
    bytes
}
