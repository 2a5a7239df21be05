//! What a file's name makes of it.
//!
//! Owns the extensions by which systems run a file, whatever is in it.

/// Extensions that make a program of a file on some system, or open it in an application that runs what is in it; and
/// the type that must be allowed for them.
const PROGRAMS: [(&str, &str); 32] = [
    ("application/hta", "hta"),
    ("application/java-archive", "jar jnlp war ear class"),
    ("application/msword", "doc dot wbk wiz"),
    ("application/onenote", "one onepkg"),
    ("application/vnd.android.package-archive", "apk aab xapk ipa"),
    ("application/vnd.microsoft.portable-executable", "exe com scr pif dll cpl sys drv ocx efi mui ax"),
    ("application/vnd.ms-excel", "xls xlt xlm xlw xla xll slk iqy dqy oqy rqy"),
    ("application/vnd.ms-excel.sheet.macroenabled.12", "xlsm xltm xlsb xlam"),
    ("application/vnd.ms-htmlhelp", "chm hlp"),
    ("application/vnd.ms-powerpoint", "ppt pot pps ppa"),
    ("application/vnd.ms-powerpoint.presentation.macroenabled.12", "pptm potm ppam ppsm sldm"),
    ("application/vnd.ms-word.document.macroenabled.12", "docm dotm"),
    ("application/x-bat", "bat cmd btm"),
    ("application/x-httpd-php", "php php3 php4 php5 php7 phtml phar asp aspx jsp cgi"),
    ("application/x-iso9660-image", "iso img vhd vhdx udf dmg"),
    ("application/x-mach-binary", "app dylib scpt scptd applescript workflow action"),
    ("application/x-ms-shortcut", "lnk scf theme themepack deskthemepack application gadget rdp"),
    ("application/x-msaccess", "accdb accde mdb mde ade adp"),
    ("application/x-msi", "msi msp mst msix msixbundle appx appxbundle appinstaller"),
    ("application/x-perl", "pl pm"),
    ("application/x-powershell", "ps1 ps1xml ps2 ps2xml psc1 psc2 psm1 psd1 msh msh1 msh2 cdxml"),
    ("application/x-python", "py pyc pyw pyz pyzw"),
    ("application/x-ruby", "rb lua tcl"),
    ("application/x-software-package", "cab diagcab deb rpm pkg mpkg appimage snap flatpak vsix xpi crx"),
    (
        "application/x-url-shortcut",
        "url website desktop webloc library-ms settingcontent-ms search-ms searchconnector-ms",
    ),
    ("application/x-windows-script", "wsf wsc wsh ws sct shb shs msc job xbap"),
    ("application/xhtml+xml", "xhtml xht xsl xslt"),
    ("image/svg+xml", "svg svgz"),
    ("text/html", "html htm shtml mht mhtml"),
    ("text/javascript", "js jse mjs cjs"),
    ("text/vbscript", "vbs vbe vb bas"),
    ("text/x-shellscript", "sh bash zsh csh ksh fish command tool run elf so"),
];

/// Extensions of settings that a system takes over when the file is opened.
const SETTINGS: (&str, &str) = ("text/x-ms-regedit", "reg inf ins isp");

/// Extensions of texts whose content does not show what they are.
const TEXTS: [(&str, &str); 5] = [
    ("csv", "text/csv"),
    ("tsv", "text/tab-separated-values"),
    ("json", "application/json"),
    ("md", "text/markdown"),
    ("css", "text/css"),
];

/// The extension by which the file is run, if it is, and the type that it stands for.
pub(super) fn program(filename: &str) -> Option<(&'static str, &'static str)> {
    // Windows reads a colon as the end of the name, other systems as a part of it.
    filename.split(':').find_map(|name| {
        let extension = extension(name)?;
        let of_type = |extensions: &'static str| extensions.split(' ').find(|known| *known == extension);
        PROGRAMS.iter().chain([&SETTINGS]).find_map(|(media, extensions)| Some((of_type(extensions)?, *media)))
    })
}

/// The type of a text by its extension.
pub(super) fn text(filename: &str) -> Option<&'static str> {
    let extension = extension(filename)?;
    TEXTS.iter().find(|(known, _)| *known == extension).map(|(_, media)| *media)
}

/// Whether the type stands for extensions by which a file is run.
pub(super) fn is_program_type(essence: &str) -> bool {
    PROGRAMS.iter().chain([&SETTINGS]).any(|(media, _)| *media == essence)
}

/// The extension, lower-case. Windows drops dots and spaces at the end of a name: `a.exe.` and `a.exe ` are `a.exe`.
fn extension(name: &str) -> Option<String> {
    let name = name.trim_end_matches(|c: char| c == '.' || c.is_whitespace());
    let (_, extension) = name.rsplit_once('.')?;
    Some(extension.trim().to_ascii_lowercase())
}
